//! Times packet by packet, as CSV.

use crate::Error;
use crate::captures::is_stdout;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Writes a head and rows of whole numbers to a file, or to stdout for `-`.
pub(super) fn write<const N: usize>(
    path: &Path,
    head: &str,
    rows: impl Iterator<Item = [u64; N]>,
) -> Result<(), Error> {
    let named = |source: io::Error| {
        let text = format!("{}: {source}", path.display());
        Error::Output { source: io::Error::new(source.kind(), text) }
    };
    if is_stdout(path) {
        return write_to(io::stdout().lock(), head, rows)
            .map_err(|source| Error::Output { source });
    }
    let file = File::create(path).map_err(named)?;
    write_to(file, head, rows).map_err(named)
}

fn write_to<const N: usize>(
    to: impl Write,
    head: &str,
    rows: impl Iterator<Item = [u64; N]>,
) -> io::Result<()> {
    let mut to = BufWriter::new(to);
    writeln!(to, "{head}")?;
    for row in rows {
        for (index, number) in row.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(to, "{comma}{number}")?;
        }
        writeln!(to)?;
    }
    to.flush()
}

#[cfg(test)]
mod tests {
    use super::write_to;

    #[test]
    fn a_line_for_each_row() {
        let mut text = Vec::new();
        write_to(&mut text, "a,b", [[1, 2], [3, u64::MAX]].into_iter()).unwrap();
        assert_eq!(text, b"a,b\n1,2\n3,18446744073709551615\n");
    }
}
