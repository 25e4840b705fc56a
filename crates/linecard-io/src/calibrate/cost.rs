//! Serialised costs: the pure crate that defines them does not use serde.

use linecard_plan::{Cost, Spread};
use serde::{Deserialize, Serialize};

/// A [`Cost`] field by field.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Cost")]
pub(super) struct StoredCost {
    fixed_ns: f64,
    each_ns: f64,
    #[serde(default, with = "spread")]
    spread: Spread,
}

/// A [`Spread`] as its points.
mod spread {
    use linecard_plan::Spread;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(spread: &Spread, to: S) -> Result<S::Ok, S::Error> {
        spread.points().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Spread, D::Error> {
        let points = Vec::<(f64, f64)>::deserialize(from)?;
        Spread::new(&points).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use crate::calibrate::StageCost;
    use linecard_plan::{Cost, Spread};

    #[test]
    fn a_kept_cost_is_read_again_and_a_spread_that_is_none_is_refused() {
        let cost = Cost::new(100.0, 20.0).expect("a cost");
        let spread = Spread::new(&[(0.5, 0.5), (1.5, 0.5)]).expect("points");
        let (name, unit) = ("segment@1500".to_owned(), "packet".to_owned());
        let stage = StageCost { name, unit, cost: cost.with_spread(spread), residual: 0.0 };
        let text = serde_json::to_string(&stage).expect("JSON");
        assert!(text.contains(r#""spread":[[0.5,0.5],[1.5,0.5]]"#), "{text}");
        assert_eq!(serde_json::from_str::<StageCost>(&text).expect("the same"), stage);
        let read = |spread: &str| {
            let cost = format!(r#"{{"fixed_ns":1.0,"each_ns":2.0{spread}}}"#);
            let text = format!(r#"{{"name":"a","unit":"packet","cost":{cost},"residual":0.0}}"#);
            serde_json::from_str::<StageCost>(&text)
        };
        assert_eq!(read("").expect("the mean").cost.spread, Spread::default());
        assert!(read(r#","spread":[]"#).is_err_and(|why| why.to_string().contains("1 to 16")));
    }
}
