//! Expressions in papers: numbers, values of outcomes, and computations with them.
//!
//! `slow.bus.header_clocks` is a value of the outcome of the job `slow`; of a job with several points it is a list, and
//! `slow[load.clients > 8].…` is that of some of them. Arithmetic and comparisons go through lists item by item.

use super::error::ExpressionError;
use super::measure;
use linecard_report::Value;
use std::str::FromStr;

/// A result: one number or several.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Numbers {
    pub(super) values: Vec<f64>,
    /// Whether they are 0 or 1, for false and true.
    pub(super) is_truth: bool,
}

/// Values of outcomes that an expression names.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Query {
    /// A job, a curve, a named value, or `it`.
    pub(super) root: String,
    /// Which points: parameter, comparison, number.
    pub(super) filters: Vec<(String, Comparison, f64)>,
    /// The path of the value in the outcome.
    pub(super) keys: Vec<String>,
}

/// Finds the values of a query.
pub(super) type Lookup<'l> = dyn Fn(&Query) -> Parsed + 'l;

/// How two numbers are compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Comparison {
    Equal,
    Differs,
    AtMost,
    AtLeast,
    Less,
    More,
}

/// As expressions write them; those of two letters first.
const COMPARISONS: [(&str, Comparison); 6] = [
    ("==", Comparison::Equal),
    ("!=", Comparison::Differs),
    ("<=", Comparison::AtMost),
    (">=", Comparison::AtLeast),
    ("<", Comparison::Less),
    (">", Comparison::More),
];

impl Comparison {
    pub(super) fn holds(self, a: f64, b: f64) -> bool {
        match self {
            Self::Equal => a == b,
            Self::Differs => a != b,
            Self::AtMost => a <= b,
            Self::AtLeast => a >= b,
            Self::Less => a < b,
            Self::More => a > b,
        }
    }
}

impl Numbers {
    /// The only number.
    pub(super) fn single(&self) -> Result<f64, ExpressionError> {
        match self.values[..] {
            [value] => Ok(value),
            _ => Err(ExpressionError::NotSingle { count: self.values.len() }),
        }
    }

    /// Whether all are true.
    pub(super) fn holds(&self) -> bool {
        !self.values.is_empty() && self.values.iter().all(|value| *value == 1.0)
    }
}

/// The result of an expression.
pub(super) fn evaluate(text: &str, lookup: &Lookup<'_>) -> Result<Numbers, ExpressionError> {
    let mut parser = Parser::new(text, lookup);
    let values = parser.whole(text)?;
    Ok(Numbers { values, is_truth: parser.is_truth })
}

/// An expression with generated values.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Probe {
    /// Numbers that it compares.
    compared: Vec<f64>,
    pub(super) result: Vec<f64>,
}

impl Probe {
    /// The numbers that are compared, or else the result.
    pub(super) fn deciding(self) -> Vec<f64> {
        if self.compared.is_empty() { self.result } else { self.compared }
    }
}

/// Reads an expression before there are outcomes, with values that `lookup` makes up, as many as it likes: only an
/// expression that is wrong with any values is an error.
pub(super) fn probe(text: &str, lookup: &Lookup<'_>) -> Result<Probe, ExpressionError> {
    let mut parser = Parser { compared: Some(Vec::new()), ..Parser::new(text, lookup) };
    let result = parser.whole(text)?;
    Ok(Probe { compared: parser.compared.unwrap_or_default(), result })
}

/// The numbers that decide in [`probe`].
pub(super) fn deciding(text: &str, lookup: &Lookup<'_>) -> Parsed {
    probe(text, lookup).map(Probe::deciding)
}

/// A text with its expressions replaced: `{EXPRESSION:FORMAT}`, where a format is a width and a number of decimals
/// (`6.3`), a unit (`bit/s`, `B`, `ns`), or `s`, the ending of a plural.
pub(super) fn fill(text: &str, lookup: &Lookup<'_>) -> Result<String, ExpressionError> {
    fill_by(text, |expression| Ok(evaluate(expression, lookup)?.values))
}

/// Reads the expressions of a text before there are outcomes, as [`deciding`] does.
pub(super) fn read_text(text: &str, lookup: &Lookup<'_>) -> Result<(), ExpressionError> {
    fill_by(text, |expression| deciding(expression, lookup)).map(drop)
}

fn fill_by(text: &str, values: impl Fn(&str) -> Parsed) -> Result<String, ExpressionError> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let (inside, behind) = after
            .split_once('}')
            .ok_or_else(|| ExpressionError::NoBrace { text: text.to_owned() })?;
        let (expression, format) = inside.rsplit_once(':').unwrap_or((inside, ""));
        let values = values(expression)?;
        let texts = values.iter().map(|value| shown(*value, format));
        filled += before;
        filled += &texts.collect::<Result<Vec<_>, _>>()?.join(", ");
        rest = behind;
    }
    Ok(filled + rest)
}

/// The widest number that a text has, in columns, and the most decimals.
pub(super) const MAX_DIGITS: usize = 64;
/// Brackets and signs within each other.
pub(super) const MAX_DEPTH: usize = 64;

fn shown(value: f64, format: &str) -> Result<String, ExpressionError> {
    let (width, decimals) = format.split_once('.').unwrap_or((format, ""));
    let digits = |text: &str| match text {
        "" => Ok(0),
        text => {
            let number = usize::from_str(text).ok().filter(|number| *number <= MAX_DIGITS);
            number.ok_or_else(|| ExpressionError::Format { format: format.to_owned() })
        }
    };
    Ok(match format {
        _ if value.is_nan() => format!("{:>width$}", "none", width = digits(width).unwrap_or(0)),
        "s" if value == 1.0 => String::new(),
        "s" => "s".to_owned(),
        "bit/s" => Value::BitRate(value).to_string(),
        "ns" => Value::Ns(value).to_string(),
        "B" => Value::Bytes(value as u64).to_string(),
        _ => format!(
            "{value:width$.decimals$}",
            width = digits(width)?,
            decimals = digits(decimals)?
        ),
    })
}

/// The rest of an expression.
struct Parser<'t, 'l> {
    rest: &'t str,
    lookup: &'l Lookup<'l>,
    is_truth: bool,
    /// Brackets and signs that it is within.
    depth: usize,
    /// While an expression is only read: numbers that were compared.
    compared: Option<Vec<f64>>,
}

pub(super) type Parsed = Result<Vec<f64>, ExpressionError>;

impl<'t, 'l> Parser<'t, 'l> {
    fn new(text: &'t str, lookup: &'l Lookup<'l>) -> Self {
        Self { rest: text.trim_start(), lookup, is_truth: false, depth: 0, compared: None }
    }

    /// All of `text`.
    fn whole(&mut self, text: &str) -> Parsed {
        let values = self.truth().map_err(|source| ExpressionError::In {
            text: text.to_owned(),
            source: Box::new(source),
        })?;
        match self.rest {
            "" => Ok(values),
            rest => Err(ExpressionError::LeftOver { text: text.to_owned(), rest: rest.to_owned() }),
        }
    }

    /// Item by item; one number goes with each of the other side.
    fn zip(&self, a: &[f64], b: &[f64], of: impl Fn(f64, f64) -> f64) -> Parsed {
        match (a, b) {
            ([a], b) => Ok(b.iter().map(|b| of(*a, *b)).collect()),
            (a, [b]) => Ok(a.iter().map(|a| of(*a, *b)).collect()),
            (a, b) if a.len() == b.len() || self.compared.is_some() => {
                Ok(a.iter().zip(b).map(|(a, b)| of(*a, *b)).collect())
            }
            (a, b) => Err(ExpressionError::Lengths { left: a.len(), right: b.len() }),
        }
    }

    fn truth(&mut self) -> Parsed {
        let mut left = self.comparison()?;
        while self.takes("and ") {
            let right = self.comparison()?;
            left = self.zip(&left, &right, |a, b| a * b)?;
        }
        Ok(left)
    }

    fn comparison(&mut self) -> Parsed {
        let left = self.sum()?;
        let Some(comparison) = self.comparison_sign() else { return Ok(left) };
        let right = self.sum()?;
        self.is_truth = true;
        self.compared.iter_mut().for_each(|all| all.extend(left.iter().chain(&right)));
        self.zip(&left, &right, |a, b| f64::from(u8::from(comparison.holds(a, b))))
    }

    fn comparison_sign(&mut self) -> Option<Comparison> {
        COMPARISONS.iter().find(|(sign, _)| self.takes(sign)).map(|(_, comparison)| *comparison)
    }

    fn sum(&mut self) -> Parsed {
        let mut left = self.product()?;
        loop {
            left = match (self.takes("+"), self.takes("-")) {
                (true, _) => {
                    let right = self.product()?;
                    self.zip(&left, &right, |a, b| a + b)?
                }
                (_, true) => {
                    let right = self.product()?;
                    self.zip(&left, &right, |a, b| a - b)?
                }
                _ => return Ok(left),
            }
        }
    }

    fn product(&mut self) -> Parsed {
        let mut left = self.power()?;
        loop {
            left = match (self.takes("*"), self.takes("/")) {
                (true, _) => {
                    let right = self.power()?;
                    self.zip(&left, &right, |a, b| a * b)?
                }
                (_, true) => {
                    let right = self.power()?;
                    self.zip(&left, &right, |a, b| a / b)?
                }
                _ => return Ok(left),
            }
        }
    }

    fn power(&mut self) -> Parsed {
        let base = self.atom()?;
        if !self.takes("^") {
            return Ok(base);
        }
        let exponent = self.atom()?;
        self.zip(&base, &exponent, f64::powf)
    }

    fn atom(&mut self) -> Parsed {
        if self.depth == MAX_DEPTH {
            return Err(ExpressionError::Depth);
        }
        self.depth += 1;
        let values = self.inner_atom();
        self.depth -= 1;
        values
    }

    fn inner_atom(&mut self) -> Parsed {
        if self.takes("(") {
            let inside = self.truth()?;
            return self.expects(")").map(|()| inside);
        }
        if self.takes("-") {
            return Ok(self.atom()?.iter().map(|value| -value).collect());
        }
        if self.rest.starts_with(|first: char| first.is_ascii_digit()) {
            return self.number().map(|number| vec![number]);
        }
        let name = self.name()?;
        if !self.takes("(") {
            let query = self.query(name)?;
            return (self.lookup)(&query);
        }
        let mut arguments = Vec::new();
        while !self.takes(")") {
            arguments.push(self.truth()?);
            if !self.takes(",") && !self.rest.starts_with(')') {
                return Err(self.no(")"));
            }
        }
        self.is_truth = name == "rises";
        match &mut self.compared {
            None => call(name, &arguments),
            Some(compared) => {
                if self.is_truth {
                    compared.extend(arguments.concat());
                }
                call_before_outcomes(name, &arguments)
            }
        }
    }

    fn query(&mut self, root: &str) -> Result<Query, ExpressionError> {
        let mut query = Query { root: root.to_owned(), filters: Vec::new(), keys: Vec::new() };
        if self.takes("[") {
            loop {
                let mut parameter = self.name()?.to_owned();
                while self.takes(".") {
                    parameter = format!("{parameter}.{}", self.name()?);
                }
                let sign = self.comparison_sign().ok_or(ExpressionError::NoComparison)?;
                let number = match (&self.sum()?[..], &self.compared) {
                    ([number], _) | ([number, ..], Some(_)) => *number,
                    _ => return Err(ExpressionError::List),
                };
                query.filters.push((parameter, sign, number));
                if !self.takes(",") {
                    break;
                }
            }
            self.expects("]")?;
        }
        while self.takes(".") {
            query.keys.push(self.name()?.to_owned());
        }
        Ok(query)
    }

    fn name(&mut self) -> Result<&'t str, ExpressionError> {
        self.while_of(|c| c.is_ascii_alphanumeric() || c == '_')
    }

    fn number(&mut self) -> Result<f64, ExpressionError> {
        let text = self.while_of(|c| c.is_ascii_alphanumeric() || c == '.' || c == '_')?;
        text.replace('_', "")
            .parse()
            .map_err(|_| ExpressionError::NotNumber { text: text.to_owned() })
    }

    fn while_of(&mut self, is_of: impl Fn(char) -> bool) -> Result<&'t str, ExpressionError> {
        let end = self.rest.find(|c| !is_of(c)).unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        if text.is_empty() {
            return Err(ExpressionError::NoName { rest: rest.to_owned() });
        }
        Ok(text)
    }

    fn takes(&mut self, sign: &str) -> bool {
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.map_or(self.rest, str::trim_start);
        rest.is_some()
    }

    fn expects(&mut self, sign: &'static str) -> Result<(), ExpressionError> {
        if self.takes(sign) { Ok(()) } else { Err(self.no(sign)) }
    }

    fn no(&self, sign: &'static str) -> ExpressionError {
        ExpressionError::NoSign { sign, rest: self.rest.to_owned() }
    }
}

/// A function of lists; those that no job computes are in [`measure`].
fn call(name: &str, arguments: &[Vec<f64>]) -> Parsed {
    let all = arguments.concat();
    let single = match (name, arguments) {
        ("list", _) => return Ok(all),
        ("item", [values, at]) => {
            let at = at.first().map_or(usize::MAX, |at| *at as usize);
            *values.get(at).ok_or(ExpressionError::NoItem { count: values.len(), at })?
        }
        ("abs", [values]) => return Ok(values.iter().map(|value| value.abs()).collect()),
        ("count", _) => all.len() as f64,
        ("sum", _) => all.iter().sum(),
        _ if all.is_empty() && !arguments.is_empty() => {
            return Err(ExpressionError::Nothing { function: name.to_owned() });
        }
        (_, []) => return measure::function(name, &[]).map(|value| vec![value]),
        ("max", _) => all.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        ("min", _) => all.iter().copied().fold(f64::INFINITY, f64::min),
        ("first", _) => all[0],
        ("last", _) => all[all.len() - 1],
        ("mean", _) => mean(&all),
        ("standard_error", _) => standard_error(&all),
        ("rises", _) => f64::from(u8::from(all.is_sorted())),
        ("slope", [x, y]) => Line::through(x, y).slope,
        ("intercept", [x, y]) => Line::through(x, y).intercept,
        ("fit", [x, y]) => Line::through(x, y).fit,
        _ => return measure::function(name, &all).map(|value| vec![value]),
    };
    Ok(vec![single])
}

/// The same of values that are made up: an item that is missing may be there later, and functions of papers, which take
/// their time, are not computed.
fn call_before_outcomes(name: &str, arguments: &[Vec<f64>]) -> Parsed {
    match (name, arguments) {
        ("item", [values, at]) => match call(name, arguments) {
            Err(_) if !at.is_empty() => Ok(values.iter().take(1).copied().collect()),
            found => found,
        },
        // There may be more, which do not rise.
        ("rises", _) if arguments.iter().flatten().count() < 2 => Ok(vec![0.0]),
        _ if measure::has_function(name, arguments.len()) => {
            Ok(vec![arguments.iter().flatten().sum()])
        }
        _ => call(name, arguments),
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Of the mean.
fn standard_error(values: &[f64]) -> f64 {
    let (mean, count) = (mean(values), values.len() as f64);
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (squares / (count - 1.0).max(1.0) / count).sqrt()
}

/// The line with the least squares.
struct Line {
    slope: f64,
    intercept: f64,
    /// R².
    fit: f64,
}

impl Line {
    fn through(xs: &[f64], ys: &[f64]) -> Self {
        let (x, y) = (mean(xs), mean(ys));
        let of = |a: &[f64], b: &[f64], (x, y): (f64, f64)| -> f64 {
            a.iter().zip(b).map(|(a, b)| (a - x) * (b - y)).sum()
        };
        let (xx, yy, xy) = (of(xs, xs, (x, x)), of(ys, ys, (y, y)), of(xs, ys, (x, y)));
        let slope = xy / xx;
        Self { slope, intercept: y - slope * x, fit: xy * xy / (xx * yy) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(query: &Query) -> Parsed {
        let points = [(1.0, 10.0), (2.0, 20.0), (4.0, 30.0)];
        let is_in = |x: f64| query.filters.iter().all(|(_, sign, number)| sign.holds(x, *number));
        match (query.root.as_str(), &query.keys[..]) {
            ("run", [key]) if key == "rate" => {
                Ok(points.iter().filter(|point| is_in(point.0)).map(|point| point.1).collect())
            }
            _ => Err(ExpressionError::NoValue(query.clone())),
        }
    }

    #[test]
    fn expressions_are_computed_item_by_item() {
        for (text, expected) in [
            ("1 + 2 * 3 - -4", &[11.0][..]),
            ("(1 + 2) * 3 / 2", &[4.5]),
            ("1 - (1 - 1 / 2) ^ 3", &[0.875]),
            ("run.rate * 2", &[20.0, 40.0, 60.0]),
            ("run[a.b > 1, a.b != 4].rate", &[20.0]),
            ("max(run.rate, 7) - min(run.rate)", &[20.0]),
            ("list(3, run.rate)", &[3.0, 10.0, 20.0, 30.0]),
            ("slope(list(1, 2, 3), run.rate)", &[10.0]),
            ("intercept(list(1, 2, 3), run.rate) + fit(list(1, 2, 3), run.rate)", &[1.0]),
            ("mean(run.rate) and 1", &[20.0]),
            ("rises(run.rate) == 1", &[1.0]),
            ("1_000.5e1", &[10_005.0]),
        ] {
            assert_eq!(evaluate(text, &lookup).map(|found| found.values), Ok(expected.to_vec()));
        }
        let found = evaluate("run.rate > 15 and run.rate < 25", &lookup).expect("a truth");
        assert!(found.is_truth && found.values == [0.0, 1.0, 0.0] && !found.holds());
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, what) in [
            ("1 +", "a name is missing"),
            ("(1", "no `)`"),
            (&"(".repeat(99), "more than 64 deep"),
            (&"-".repeat(99), "more than 64 deep"),
            ("max(run[a > 9].rate)", "no point is chosen"),
            ("run.rate + list(1, 2)", "3 numbers do not go with 2"),
            ("nothing.rate", "no job, curve or value \"nothing\""),
            ("unknown(1)", "unknown"),
            ("1 2", "left over"),
        ] {
            let error = evaluate(text, &lookup).expect_err(text).to_string();
            assert!(error.contains(what) && error.contains(text), "{error}");
        }
    }

    /// The number of values is not known before there are outcomes.
    #[test]
    fn only_what_is_wrong_with_any_values_is_refused_before_a_run() {
        let right = [
            "run.rate + list(1, 2)",
            "item(run.rate, 9)",
            "run[a == list(1, 2)].rate",
            "full_frames(run.rate)",
        ];
        for text in right {
            assert!(evaluate(text, &lookup).is_err(), "{text}");
            assert!(deciding(text, &lookup).is_ok(), "{text}");
        }
        for text in ["1 +", "(1", "1 2", "unknown(1)", "full_frames(1, 2)", "nothing.rate", "max("]
        {
            assert!(deciding(text, &lookup).is_err(), "{text}");
        }
        assert_eq!(deciding("1 < 2 and run.rate > 5", &lookup).map(|all| all.len()), Ok(6));
        assert_eq!(deciding("rises(run.rate)", &lookup), Ok(vec![10.0, 20.0, 30.0]));
        assert!(read_text("{run.rate} of {1:6.2}", &lookup).is_ok());
        assert!(
            read_text("{run.rate +}", &lookup).is_err() && read_text("{1:x}", &lookup).is_err()
        );
    }

    #[test]
    fn texts_have_numbers_in_them() {
        let text = fill("{run.rate:.1} of {1:6.2}, {2} lane{2:s}, {16e9:bit/s}", &lookup);
        assert_eq!(text.as_deref(), Ok("10.0, 20.0, 30.0 of   1.00, 2 lanes, 16.00 Gbit/s"));
        assert!(fill("{run.rate:x}", &lookup).is_err() && fill("{1", &lookup).is_err());
        for wide in ["{1:70000}", "{1:.70000}", "{1:65}"] {
            assert!(
                fill(wide, &lookup).is_err_and(|what| what.to_string().contains("at most 64")),
                "{wide}"
            );
        }
    }
}
