//! Formats of files in `/proc` and `/sys` whose content reads differently from what was written.

use super::affinity::set;

/// Format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// Reads as it was written.
    Plain,
    /// All choices, the active one in brackets: `always [madvise] never`.
    Choice,
    /// A CPU set in hexadecimal, in groups of eight digits with commas: `00000000,00000003`.
    Mask,
    /// A CPU set as ranges: `0-1,4`.
    List,
    /// `smp_affinity_list` of an interrupt, with the CPU it fires on: `0-1 on 0`.
    Affinity,
}

/// Exclusive upper bound of CPU numbers, twice the maximum that Linux supports.
const MAX_CPU: usize = 16_384;

impl Form {
    pub(super) const ALL: [(Self, &'static str); 5] = [
        (Self::Plain, "plain"),
        (Self::Choice, "choice"),
        (Self::Mask, "mask"),
        (Self::List, "list"),
        (Self::Affinity, "affinity"),
    ];

    /// The content of a file that reads `now`, after writing this value; `None` when the file does
    /// not offer it.
    pub(super) fn with(self, now: &str, value: &str) -> Option<String> {
        let end = if now.ends_with('\n') { "\n" } else { "" };
        if self != Self::Choice {
            return Some(format!("{value}{end}"));
        }
        let bare = |word: &str| word.trim_matches(['[', ']']).to_owned();
        let words: Vec<String> = now.split_whitespace().map(bare).collect();
        if !words.iter().any(|word| word == value) {
            return None;
        }
        let marked =
            words.into_iter().map(|word| if word == value { format!("[{word}]") } else { word });
        Some(marked.collect::<Vec<_>>().join(" ") + end)
    }

    /// The value to write so that a file reads this text.
    pub(super) fn written(self, text: &str) -> &str {
        if self != Self::Choice {
            return text;
        }
        let mut chosen =
            text.split_whitespace().filter_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
        chosen.next().unwrap_or(text)
    }

    /// Whether two texts stand for the same value.
    pub(super) fn same(self, left: &str, right: &str) -> bool {
        let (left, right) = (left.trim(), right.trim());
        match self {
            _ if left == right => true,
            Self::Plain | Self::Choice => false,
            Self::Mask => {
                digits(left).is_some_and(|digits_left| Some(digits_left) == digits(right))
            }
            Self::Affinity => Self::List.same(set(left), set(right)),
            Self::List => cpus(left).is_some_and(|cpus_left| Some(cpus_left) == cpus(right)),
        }
    }
}

/// A mask without commas and leading zeros.
fn digits(mask: &str) -> Option<String> {
    let digits: String = mask.chars().filter(|c| *c != ',').collect();
    let is_mask = !digits.is_empty() && digits.chars().all(|c| c.is_ascii_hexdigit());
    is_mask.then(|| digits.trim_start_matches('0').to_ascii_lowercase())
}

/// The CPUs of a list such as `0-1,4`, in order; empty for an empty list, `None` for an invalid
/// one. CPU numbers from 16,384 are invalid.
#[must_use]
pub fn cpus(list: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in list.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= MAX_CPU {
            return None;
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

/// Formats these CPUs as a list.
#[must_use]
pub fn list(cpus: &[usize]) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for &cpu in cpus {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => parts.push((cpu, cpu)),
        }
    }
    let text = |&(first, last): &(usize, usize)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    parts.iter().map(text).collect::<Vec<_>>().join(",")
}

/// Formats these CPUs as a mask, in the kernel's groups of digits.
#[must_use]
pub fn mask(cpus: &[usize]) -> String {
    let groups = cpus.iter().max().map_or(1, |cpu| cpu / 32 + 1);
    let mut words = vec![0_u32; groups];
    cpus.iter().for_each(|cpu| words[cpu / 32] |= 1 << (cpu % 32));
    let mut text = format!("{:x}", words[groups - 1]);
    words[..groups - 1].iter().rev().for_each(|word| text += &format!(",{word:08x}"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_marked_and_read() {
        let now = "always [madvise] never\n";
        let form = Form::Choice;
        assert_eq!(form.with(now, "never").as_deref(), Some("always madvise [never]\n"));
        assert_eq!(form.with(now, "sometimes"), None);
        assert_eq!(form.written(now), "madvise");
        assert!(!form.same(now, "always madvise [never]\n"));
    }

    #[test]
    fn sets_are_compared_as_sets() {
        assert!(Form::Mask.same("00000000,00000003\n", "3"));
        assert!(Form::Mask.same("0", "00"));
        assert!(!Form::Mask.same("1,00000000", "1"));
        assert!(!Form::Mask.same("x", "y"));
        assert!(Form::List.same("0-2,4\n", "0,1,2,4"));
        assert!(!Form::List.same("0-2", "0-3"));
        assert!(!Form::Plain.same("0", "00"));
        assert_eq!(Form::List.with("0-1\n", "1").as_deref(), Some("1\n"));
    }

    #[test]
    fn sets_go_there_and_back() {
        for set in [vec![], vec![0], vec![0, 1, 2], vec![1, 3, 4, 63, 64, 65, 1_000]] {
            assert_eq!(cpus(&list(&set)), Some(set.clone()));
        }
        assert_eq!(mask(&[0, 1]), "3");
        assert_eq!(mask(&[33]), "2,00000000");
        assert_eq!(mask(&[]), "0");
        for bad in ["a", "3-1", "0-99999999", "1-", "0-x"] {
            assert_eq!(cpus(bad), None, "{bad}");
        }
    }
}
