//! Values of an outcome with units: numbers in JSON, with the unit in text.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use std::borrow::Cow;

macro_rules! quantity {
    ($(#[$doc:meta])* $type:ident($inner:ty), $kind:literal, $format:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default, Serialize)]
        #[serde(transparent)]
        pub struct $type(pub $inner);

        impl $type {
            /// The format name in the JSON Schema.
            pub const FORMAT: &'static str = $format;
        }

        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": $kind, "format": $format })
            }
        }
    };
}

quantity! {
    /// A number of bytes.
    ByteCount(u64), "integer", "byte-count"
}
quantity! {
    /// Bits per second.
    BitRate(f64), "number", "bit-rate"
}
quantity! {
    /// A time in nanoseconds.
    Nanoseconds(f64), "number", "nanoseconds"
}
quantity! {
    /// A time in seconds.
    Seconds(f64), "number", "seconds"
}
quantity! {
    /// A share, 0 to 1.
    Share(f64), "number", "share"
}
