//! Values that are the same for a type, made once: schemas take longer than the smallest runs of a sweep.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Values by their own type and the type that they are of; as many as a program has such types.
static MADE: Mutex<BTreeMap<(TypeId, TypeId), &'static (dyn Any + Send + Sync)>> =
    Mutex::new(BTreeMap::new());

/// The value of this kind for a type: made at first use, and kept until the program ends.
pub fn per_type<T: 'static, V: Any + Send + Sync>(make: impl FnOnce() -> V) -> &'static V {
    let key = (TypeId::of::<T>(), TypeId::of::<V>());
    let known = || MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let found = known().get(&key).copied();
    // Made without the lock: a schema may ask for those of other types.
    let value = found.unwrap_or_else(|| {
        let made = Box::leak(Box::new(make()));
        *known().entry(key).or_insert(made)
    });
    value.downcast_ref().expect("the key has the type of the value")
}
