//! A figure of a publication: our curves, and the points that the paper gives in words or tables, over them.

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

impl Figure {
    /// Expressions of its curves, each with the number of its curve.
    pub(super) fn expressions(&self) -> impl Iterator<Item = (usize, &str)> {
        let all = self.curves.iter().enumerate();
        all.flat_map(|(index, curve)| [(index, curve.x.as_str()), (index, curve.y.as_str())])
    }

    /// The figure with our values.
    pub(super) fn draw(&self, lookup: &Lookup<'_>) -> Result<Curves, String> {
        let in_figure = |what: String| format!("{}: {what}", self.key);
        let mut chart = Curves::new(self.key.clone(), fill(&self.title, lookup)?, self.axes());
        for curve in &self.curves {
            let numbers = |text: &String| Ok::<_, String>(evaluate(text, lookup)?.values);
            let (x, y) = (numbers(&curve.x)?, numbers(&curve.y)?);
            chart.model(curve.name.clone(), points(&curve.name, &x, &y).map_err(in_figure)?);
        }
        for published in &self.published {
            let answer = published.answered_by.as_deref();
            if let Some(name) = answer
                && !self.curves.iter().any(|curve| curve.name == name)
            {
                return Err(in_figure(format!("{}: no curve {name:?} answers it", published.name)));
            }
            let points = points(&published.name, &published.x, &published.y).map_err(in_figure)?;
            chart.published(published.name.clone(), points, answer);
        }
        if !self.caption.is_empty() {
            chart.caption(fill(&self.caption, lookup)?);
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
fn points(name: &str, x: &[f64], y: &[f64]) -> Result<Vec<(f64, f64)>, String> {
    if x.len() != y.len() {
        return Err(format!("{name}: {} values of x, but {} of y", x.len(), y.len()));
    }
    Ok(x.iter().copied().zip(y.iter().copied()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::expression::Query;
    use linecard_config::Document;
    use linecard_report::Chart;

    fn draw(text: &str) -> Result<Curves, String> {
        let document = Document::of_text("figure.toml", text).map_err(|error| error.to_string())?;
        let figure: Figure = document.read_as().map_err(|error| error.to_string())?;
        figure.draw(&|query: &Query| match query.root.as_str() {
            "clients" => Ok(vec![1.0, 2.0, 3.0]),
            other => Err(format!("no {other}")),
        })
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
        assert!(refused("answered_by = \"ours\"", "answered_by = \"other\"").contains("\"other\""));
        assert!(refused("y = [189.8]", "y = [1, 2]").contains("1 values of x, but 2 of y"));
        assert!(refused("\"94.9 * clients\"", "\"servers\"").contains("no servers"));
        assert!(refused("caption", "comment").contains("comment"));
    }
}
