//! Rules that several configurations have, for the attribute `garde(custom(…))`.

/// Refuses a number that is not a power of two, and names the two powers beside it.
///
/// # Errors
///
/// A value that is not a power of two.
pub fn power_of_two(value: &u32, (): &()) -> garde::Result {
    if value.is_power_of_two() {
        return Ok(());
    }
    let below = value.checked_ilog2().map_or(1, |power| 1_u64 << power);
    let what = format!("{value} is not a power of two: choose {below} or {}", 2 * below);
    Err(garde::Error::new(what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use garde::Validate;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    #[derive(Clone, Default, Serialize, Deserialize, JsonSchema, Validate)]
    struct Bus {
        #[garde(range(min = 32, max = 1_024), custom(power_of_two))]
        bits: u32,
    }

    #[test]
    fn a_value_is_refused_for_its_range_before_other_rules() {
        let refused = |bits| crate::check(&Bus { bits }).expect_err("refused").to_string();
        assert_eq!(refused(31), "bits: 31 is out of range: choose 32 to 1024");
        assert_eq!(refused(96), "bits: 96 is not a power of two: choose 64 or 128");
        assert!(crate::check(&Bus { bits: 64 }).is_ok());
    }

    #[test]
    fn what_is_not_a_power_of_two_is_refused_with_its_neighbours() {
        assert!(power_of_two(&1, &()).is_ok() && power_of_two(&(1 << 31), &()).is_ok());
        let refused = |value| power_of_two(&value, &()).expect_err("refused").to_string();
        assert_eq!(refused(100), "100 is not a power of two: choose 64 or 128");
        assert_eq!(refused(0), "0 is not a power of two: choose 1 or 2");
        assert!(refused(u32::MAX).ends_with("choose 2147483648 or 4294967296"));
    }
}
