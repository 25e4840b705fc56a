//! A figure of a publication: our curves, and the points that the paper gives in words or tables, over them.

use super::check::{at, unknown};
use super::error::{PaperError, Refused};
use super::expression::{Lookup, evaluate, fill};
use linecard_report::{Axis, Curves, Unit};
use serde::Deserialize;

/// A figure.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Figure {
    key: String,
    title: String,
    /// Where it is in the paper.
    #[serde(rename = "place")]
    _place: String,
    x: FigureAxis,
    y: FigureAxis,
    curves: Vec<FigureCurve>,
    #[serde(default)]
    published: Vec<Published>,
    /// Values that the paper only draws, or how to read it.
    #[serde(default)]
    caption: String,
}

/// An axis; its unit is in its name.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FigureAxis {
    name: String,
    #[serde(default)]
    log: bool,
    /// Of the values 0, 1, …, if they are no numbers.
    #[serde(default)]
    names: Vec<String>,
}

/// A curve of ours: expressions for its places and values.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FigureCurve {
    name: String,
    x: String,
    y: String,
}

/// Points that the paper gives as numbers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Published {
    name: String,
    x: Vec<f64>,
    y: Vec<f64>,
    /// The curve of ours that answers them.
    answered_by: Option<String>,
}

/// Reads an expression, or a text, of a key.
pub(super) type Read<'r> = dyn Fn(&str, &str) -> Result<(), Refused> + 'r;

impl Figure {
    /// Checks what is wrong with any outcome.
    pub(super) fn check(&self, read: &Read<'_>, text: &Read<'_>) -> Result<(), Refused> {
        text("title", &self.title)?;
        text("caption", &self.caption)?;
        for (index, curve) in self.curves.iter().enumerate() {
            read(&format!("curves[{index}].x"), &curve.x)?;
            read(&format!("curves[{index}].y"), &curve.y)?;
        }
        for (index, published) in self.published.iter().enumerate() {
            let key = |key: &str| format!("published[{index}].{key}");
            points(&published.x, &published.y).map_err(at(&key("y")))?;
            let curves = || self.curves.iter().map(|curve| &curve.name);
            if let Some(name) = &published.answered_by
                && !curves().any(|curve| curve == name)
            {
                return Err(at(&key("answered_by"))(unknown("curve", name, curves())));
            }
        }
        Ok(())
    }

    /// The figure with our values.
    pub(super) fn draw(&self, lookup: &Lookup<'_>) -> Result<Curves, Refused> {
        let title = fill(&self.title, lookup).map_err(at("title"))?;
        let mut chart = Curves::new(self.key.clone(), title, self.axes());
        for (index, curve) in self.curves.iter().enumerate() {
            let key = |key: &str| format!("curves[{index}].{key}");
            let x = evaluate(&curve.x, lookup).map_err(at(&key("x")))?.values;
            let y = evaluate(&curve.y, lookup).map_err(at(&key("y")))?.values;
            chart.model(curve.name.clone(), points(&x, &y).map_err(at(&key("y")))?);
        }
        for (index, published) in self.published.iter().enumerate() {
            let points = points(&published.x, &published.y);
            let points = points.map_err(at(&format!("published[{index}].y")))?;
            chart.published(published.name.clone(), points, published.answered_by.as_deref());
        }
        if !self.caption.is_empty() {
            chart.caption(fill(&self.caption, lookup).map_err(at("caption"))?);
        }
        Ok(chart)
    }

    fn axes(&self) -> [Axis; 2] {
        [&self.x, &self.y].map(|axis| {
            let plain = Axis::new(axis.name.clone(), Unit::Plain(""));
            match &axis.names[..] {
                [] if axis.log => plain.log(),
                [] => plain,
                names => Axis::of_names(axis.name.clone(), names.to_vec()),
            }
        })
    }
}

/// Places and values that belong together.
fn points(x: &[f64], y: &[f64]) -> Result<Vec<(f64, f64)>, PaperError> {
    if x.len() != y.len() {
        return Err(PaperError::Points { x: x.len(), y: y.len() });
    }
    Ok(x.iter().copied().zip(y.iter().copied()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::error::ExpressionError;
    use crate::reproduce::expression::Query;
    use linecard_config::Document;
    use linecard_report::Chart;

    fn draw(text: &str) -> Result<Curves, String> {
        let document = Document::of_text("figure.toml", text).map_err(|error| error.to_string())?;
        let figure: Figure = document.read_as().map_err(|error| error.to_string())?;
        let key = |Refused { key, source }| format!("{key}: {source}");
        figure.check(&|_, _| Ok(()), &|_, _| Ok(())).map_err(key)?;
        let lookup = |query: &Query| match query.root.as_str() {
            "clients" => Ok(vec![1.0, 2.0, 3.0]),
            _ => Err(ExpressionError::NoValue(query.clone())),
        };
        figure.draw(&lookup).map_err(key)
    }

    const FIGURE: &str = r#"
        key = "figure"
        title = "A figure over {first(clients):.0} client"
        place = "figure 2"
        x = { name = "clients" }
        y = { name = "rate, Mbit/s", log = true }
        curves = [{ name = "ours", x = "clients", y = "94.9 * clients" }]
        published = [{ name = "text", x = [2], y = [189.8], answered_by = "ours" }]
        caption = "Curves are drawn only."
    "#;

    #[test]
    fn curves_follow_expressions() {
        let svg = Chart::from(draw(FIGURE).expect("a figure")).svg().expect("a picture");
        assert!(svg.contains("A figure over 1 client") && svg.contains("difference"), "{svg}");
    }

    /// A curve that is renamed must not leave its points without an answer silently.
    #[test]
    fn what_does_not_fit_is_refused() {
        let refused = |from: &str, to: &str| draw(&FIGURE.replace(from, to)).expect_err(to);
        assert_eq!(
            refused("answered_by = \"ours\"", "answered_by = \"other\""),
            "published[0].answered_by: unknown curve `other`: known are ours"
        );
        assert_eq!(
            refused("y = [189.8]", "y = [1, 2]"),
            "published[0].y: 2 values of y, but 1 of x"
        );
        assert_eq!(
            refused("\"94.9 * clients\"", "\"servers\""),
            "curves[0].y: servers: no job, curve or value \"servers\" with []"
        );
        assert_eq!(
            refused("\"94.9 * clients\"", "\"list(1, 2)\""),
            "curves[0].y: 2 values of y, but 3 of x"
        );
        assert!(refused("caption", "comment").contains("comment"));
    }
}
