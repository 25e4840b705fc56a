//! Times that are drawn, and how documents write them.

use crate::Ps;
use linecard::rng::Rng;
use linecard_config::{Duration, OneOrMany};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Shares of times that are at most those of [`Spread::measured`]. What is rarer is not in them: a host's pauses come so
/// often in a second, and not so often in a million packets.
pub const LEVELS: [f64; 6] = [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999];

/// A time that is drawn: `least`, and evenly up to `width` more; once in `one_in` times evenly up to `rare` more than that.
/// Or from quantiles that were measured, with times between two of them evenly.
///
/// In documents a list of least time and width, or of these, `one_in` and `rare`: `["300ns", "200ns", 1000, "8us"]`; or
/// of six quantiles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "OneOrMany<Part>", into = "Vec<Part>")]
pub struct Spread {
    /// Always.
    pub least: Ps,
    /// Up to so much more.
    pub width: Ps,
    /// How seldom the rare part comes; never when 0.
    pub one_in: u32,
    /// Up to so much more then.
    pub rare: Ps,
    /// In place of all these: what the shares [`LEVELS`] are at most.
    pub measured: Option<[Ps; LEVELS.len()]>,
}

impl Spread {
    /// `least` to `least + width`, in nanoseconds.
    #[must_use]
    pub const fn ns(least: u64, width: u64) -> Self {
        Self {
            least: Ps::from_ns(least),
            width: Ps::from_ns(width),
            one_in: 0,
            rare: Ps::ZERO,
            measured: None,
        }
    }

    /// By quantiles that rise.
    #[must_use]
    pub fn of_quantiles(quantiles: [Ps; LEVELS.len()]) -> Self {
        Self { measured: Some(quantiles), ..Self::default() }
    }

    /// The most that it may be.
    pub(super) fn most(&self) -> Ps {
        let parts = [self.least, self.width, self.rare];
        parts.into_iter().chain(self.measured.into_iter().flatten()).max().unwrap_or_default()
    }

    /// Once in `one_in` times up to `rare_ns` more.
    #[must_use]
    pub const fn or(self, one_in: u32, rare_ns: u64) -> Self {
        Self { one_in, rare: Ps::from_ns(rare_ns), ..self }
    }

    /// Draws one.
    pub fn draw(&self, rng: &mut Rng) -> Ps {
        if let Some(quantiles) = &self.measured {
            return between(quantiles, rng);
        }
        let mut time = self.least + Ps(rng.below(self.width.0));
        if self.one_in > 0 && rng.below(self.one_in.into()) == 0 {
            time += Ps(rng.below(self.rare.0));
        }
        time
    }
}

/// A time whose share is drawn, between the quantiles around it.
fn between(quantiles: &[Ps; LEVELS.len()], rng: &mut Rng) -> Ps {
    const ONE: u64 = 1 << 32;
    let share = rng.below(ONE) as f64 / ONE as f64;
    let Some(above) = LEVELS.iter().position(|level| share < *level) else {
        return quantiles[LEVELS.len() - 1];
    };
    let below = above.saturating_sub(1);
    let part = (share - LEVELS[below]) / (LEVELS[above] - LEVELS[below]);
    quantiles[below] + Ps((quantiles[above].since(quantiles[below]).0 as f64 * part) as u64)
}

/// A part of a spread in a document: a time, or a count.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a part is a time or a whole number")]
pub(super) enum Part {
    Count(u32),
    Text(String),
}

impl TryFrom<OneOrMany<Part>> for Spread {
    type Error = String;

    fn try_from(parts: OneOrMany<Part>) -> Result<Self, String> {
        let time = |text: &str| -> Result<Ps, String> {
            text.parse::<Duration>().map(Ps::from).map_err(|error| error.to_string())
        };
        match &*parts {
            [Part::Text(least), Part::Text(width)] => {
                Ok(Self { least: time(least)?, width: time(width)?, ..Self::default() })
            }
            [Part::Text(least), Part::Text(width), Part::Count(one_in @ 1..), Part::Text(rare)] => {
                let (least, width, rare) = (time(least)?, time(width)?, time(rare)?);
                Ok(Self { least, width, one_in: *one_in, rare, measured: None })
            }
            parts if parts.len() == LEVELS.len() => {
                let mut quantiles = [Ps::ZERO; LEVELS.len()];
                for (quantile, part) in quantiles.iter_mut().zip(parts) {
                    *quantile = time(&part.text())?;
                }
                if !quantiles.is_sorted() {
                    return Err("quantiles have to rise".to_owned());
                }
                Ok(Self::of_quantiles(quantiles))
            }
            parts => {
                let parts: Vec<String> = parts.iter().map(Part::text).collect();
                Err(format!(
                    "\"{}\" is not a stage: write [\"300ns\", \"200ns\"], or [\"300ns\", \"200ns\", 1000, \"8us\"]",
                    parts.join(",")
                ))
            }
        }
    }
}

impl From<Spread> for Vec<Part> {
    fn from(spread: Spread) -> Self {
        let text = |time: Ps| Part::Text(Duration::from_ps(time.0).to_string());
        if let Some(quantiles) = spread.measured {
            return quantiles.map(text).into();
        }
        let mut parts = vec![text(spread.least), text(spread.width)];
        if spread.one_in > 0 {
            parts.extend([Part::Count(spread.one_in), text(spread.rare)]);
        }
        parts
    }
}

impl Part {
    /// As it was written.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Count(count) => count.to_string(),
            Self::Text(text) => text.clone(),
        }
    }
}
