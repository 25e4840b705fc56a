//! Structs of counters, one for each worker.

use super::reason::{Reason, Tally};
use crate::stats::Histogram;

/// Counters that can be added up.
pub(crate) trait Count {
    /// Adds what another has counted.
    fn sum(&mut self, other: &Self);
}

impl Count for u64 {
    fn sum(&mut self, other: &Self) {
        *self += other;
    }
}

impl Count for Histogram {
    fn sum(&mut self, other: &Self) {
        self.add(other);
    }
}

impl<R: Reason, const N: usize> Count for Tally<R, N> {
    fn sum(&mut self, other: &Self) {
        self.add(other);
    }
}

/// Defines a struct of counters, which are added to those of others field by field. With `frames`, it begins with packets
/// and bytes that came and left.
macro_rules! counters {
    (frames $(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $field:ident: $kind:ty,)+ }) => {
        $crate::offload::counters::counters! {
            $(#[$meta])*
            $name {
                /// Packets received.
                packets_in: u64,
                /// Bytes of frames received.
                bytes_in: u64,
                /// Packets that left; several that became one are counted once.
                packets_out: u64,
                /// Bytes of frames that left.
                bytes_out: u64,
                $($(#[$doc])* $field: $kind,)+
            }
        }

        impl $name {
            pub(super) fn received(&mut self, bytes: usize) {
                self.packets_in += 1;
                self.bytes_in += bytes as u64;
            }

            pub(super) fn sent(&mut self, bytes: usize) {
                self.packets_out += 1;
                self.bytes_out += bytes as u64;
            }
        }
    };
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $field:ident: $kind:ty,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Default)]
        #[non_exhaustive]
        pub struct $name { $($(#[$doc])* pub $field: $kind,)+ }

        impl $name {
            /// Adds the counters of another.
            pub fn add(&mut self, other: &Self) {
                $($crate::offload::counters::Count::sum(&mut self.$field, &other.$field);)+
            }
        }
    };
}
pub(crate) use counters;
