//! `--lanes`: how many, and of which kind.

use linecard_app::{Error, Failure};
use linecard_config::Document;

/// Value of `--lanes`: `8`, `sim` or `sim:8`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LanesValue {
    /// As it was given.
    text: String,
    is_simulated: bool,
    count: Option<u64>,
}

/// All of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Lanes {
    /// In virtual time, not in memory.
    pub(super) are_simulated: bool,
    /// The value that says how many, if there is one, and the number.
    count: Option<(String, u64)>,
}

impl LanesValue {
    /// Reads one value.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (is_simulated, count) = match text.split_once(':') {
            None if text == "sim" => (true, None),
            Some(("sim", count)) => (true, Some(number(count)?)),
            _ => (false, Some(number(text)?)),
        };
        Ok(Self { text: text.to_owned(), is_simulated, count })
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| format!("\"{text}\" is not a number of lanes: write 16, sim or sim:16"))
}

impl Lanes {
    /// Puts them together: the kind and the number may be given separately, each once.
    pub(super) fn of(values: &[LanesValue]) -> Result<Self, Error> {
        let kinds = values.iter().filter(|value| value.is_simulated).count();
        let count = |value: &LanesValue| Some((value.text.clone(), value.count?));
        let mut counts: Vec<(String, u64)> = values.iter().filter_map(count).collect();
        if kinds > 1 || counts.len() > 1 {
            let what = "--lanes: given more than once: give one number, and sim where it is meant";
            return Err(Failure::Usage.with(what.to_owned()));
        }
        Ok(Self { are_simulated: kinds == 1, count: counts.pop() })
    }

    /// Sets the number, if it is given.
    pub(super) fn set(&self, document: &mut Document) -> Result<(), Error> {
        match &self.count {
            Some((text, count)) => {
                Ok(document.set_as(format!("--lanes {text}"), "lanes.count", &count.to_string())?)
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes(texts: &[&str]) -> Result<(bool, Option<u64>), String> {
        let values: Result<Vec<_>, _> = texts.iter().map(|text| LanesValue::parse(text)).collect();
        let lanes = Lanes::of(&values?).map_err(|failure| failure.to_string())?;
        Ok((lanes.are_simulated, lanes.count.map(|(_, count)| count)))
    }

    #[test]
    fn kind_and_number_may_be_said_apart_or_together() {
        assert_eq!(lanes(&[]), Ok((false, None)));
        assert_eq!(lanes(&["4"]), Ok((false, Some(4))));
        assert_eq!(lanes(&["sim"]), Ok((true, None)));
        for said in [&["sim:8"][..], &["sim", "8"], &["8", "sim"]] {
            assert_eq!(lanes(said), Ok((true, Some(8))), "{said:?}");
        }
    }

    #[test]
    fn twice_is_once_too_often() {
        for said in [&["4", "8"][..], &["sim", "sim"], &["sim:4", "8"]] {
            assert!(lanes(said).unwrap_err().contains("more than once"), "{said:?}");
        }
        for wrong in ["", "udp", "sim:", "sim:x", "-1"] {
            assert!(lanes(&[wrong]).unwrap_err().contains("is not a number"), "{wrong}");
        }
    }
}
