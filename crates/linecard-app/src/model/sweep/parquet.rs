//! Rows as Parquet: columns with types, Snappy, a group for every 65,536 rows.

use super::rows::Rows;
use ::parquet::basic::Compression;
use ::parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use ::parquet::errors::Result;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use ::parquet::schema::parser::parse_message_type;
use linecard_io::capture::OutputFile;
use serde_json::Value;
use std::io;
use std::sync::Arc;

/// Rows that are held until their group is written: what bounds the memory.
const GROUP: usize = 65_536;
/// Columns that are whole numbers, and those that are texts whatever is varied.
const COUNTS: [&str; 4] = ["packets_right", "packets_wrong", "payload_out", "ps"];
const TEXTS: [&str; 3] = ["hash", "limit", "error"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Count,
    Number,
    Text,
}

/// Gathers columns, and writes them by groups of rows.
pub(super) struct Parquet {
    writer: SerializedFileWriter<OutputFile>,
    kinds: Vec<Kind>,
    columns: Vec<Vec<Value>>,
}

impl Parquet {
    /// Begins a file; varied keys that are not numbers are among `texts`.
    pub(super) fn start(out: OutputFile, names: &[String], texts: &[String]) -> io::Result<Self> {
        let kind = |name: &String| {
            if TEXTS.contains(&name.as_str()) || texts.contains(name) {
                Kind::Text
            } else if COUNTS.contains(&name.as_str()) {
                Kind::Count
            } else {
                Kind::Number
            }
        };
        let kinds: Vec<Kind> = names.iter().map(kind).collect();
        let mut schema = "message sweep {".to_owned();
        for (name, kind) in names.iter().zip(&kinds) {
            let (of, note) = match kind {
                Kind::Count => ("int64", ""),
                Kind::Number => ("double", ""),
                Kind::Text => ("binary", " (UTF8)"),
            };
            schema += &format!(" optional {of} {name}{note};");
        }
        let schema = parse_message_type(&(schema + " }")).map_err(io::Error::other)?;
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let writer = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties));
        let columns = vec![Vec::new(); names.len()];
        Ok(Self { writer: writer.map_err(io::Error::other)?, kinds, columns })
    }

    fn write_group(&mut self) -> Result<()> {
        let mut group = self.writer.next_row_group()?;
        for (values, kind) in self.columns.iter_mut().zip(&self.kinds) {
            let Some(column) = group.next_column()? else { break };
            write_column(column, *kind, values)?;
            values.clear();
        }
        group.close().map(|_| ())
    }
}

impl Rows for Parquet {
    fn add(&mut self, row: Vec<Value>) -> io::Result<()> {
        for (column, value) in self.columns.iter_mut().zip(row) {
            column.push(value);
        }
        if self.columns.first().is_some_and(|column| column.len() >= GROUP) {
            self.write_group().map_err(io::Error::other)?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> io::Result<OutputFile> {
        if self.columns.first().is_some_and(|column| !column.is_empty()) {
            self.write_group().map_err(io::Error::other)?;
        }
        self.writer.into_inner().map_err(io::Error::other)
    }
}

/// Present values, and for each row whether it has one.
fn write_column(
    mut column: SerializedColumnWriter<'_>,
    kind: Kind,
    values: &[Value],
) -> Result<()> {
    let levels: Vec<i16> = values.iter().map(|value| i16::from(!value.is_null())).collect();
    let levels = Some(levels.as_slice());
    let known = values.iter();
    match kind {
        Kind::Count => {
            let numbers: Vec<i64> = known.filter_map(Value::as_i64).collect();
            column.typed::<Int64Type>().write_batch(&numbers, levels, None)?;
        }
        Kind::Number => {
            let numbers: Vec<f64> = known.filter_map(Value::as_f64).collect();
            column.typed::<DoubleType>().write_batch(&numbers, levels, None)?;
        }
        Kind::Text => {
            // A number among texts is its digits.
            let text = |value: &Value| match value {
                Value::Null => None,
                Value::String(text) => Some(ByteArray::from(text.as_str())),
                number => Some(ByteArray::from(number.to_string().into_bytes())),
            };
            let texts: Vec<ByteArray> = known.filter_map(text).collect();
            column.typed::<ByteArrayType>().write_batch(&texts, levels, None)?;
        }
    }
    column.close()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::parquet::file::reader::{FileReader, SerializedFileReader};
    use serde_json::json;

    #[test]
    fn rows_come_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rows.parquet");
        let file = OutputFile::create(&path, &[]).expect("a file");
        let names = ["core.mhz", "firmware.image", "ps", "hash", "error"].map(str::to_owned);
        let mut rows = Parquet::start(file, &names, &names[1..2]).expect("started");
        let row = |n: u64| vec![json!(n), json!("best"), json!(n * 7), json!("00ff"), Value::Null];
        for n in 0..GROUP as u64 + 3 {
            rows.add(row(n)).expect("a row");
        }
        let failed = vec![json!(1.5), json!(2), Value::Null, Value::Null, json!("no such")];
        rows.add(failed).expect("a row");
        Box::new(rows)
            .finish()
            .and_then(|file| file.commit().map_err(io::Error::other))
            .expect("ok");
        let file = std::fs::File::open(&path).expect("the file");
        let reader = SerializedFileReader::new(file).expect("Parquet");
        assert_eq!(reader.metadata().num_row_groups(), 2);
        let all: Vec<String> = reader
            .get_row_iter(None)
            .expect("rows")
            .map(|row| row.expect("a row").to_string())
            .collect();
        assert_eq!(all.len(), GROUP + 4);
        assert!(all[2].contains("core.mhz: 2.0") && all[2].contains("ps: 14"), "{}", all[2]);
        assert!(all[GROUP + 3].contains("no such") && all[GROUP + 3].contains("ps: null"));
    }
}
