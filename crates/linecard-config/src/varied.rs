//! Configurations that differ in some parameters, as the points of a sweep.

use super::choice::scalar;
use super::document::{Document, named};
use super::error::{ConfigError, Location, Problem};
use super::parameter::{Config, Parameter, parameters};
use serde_json::Value;
use std::marker::PhantomData;

/// A document, and parameters of it that have values of their own at each point.
///
/// ```
/// use garde::Validate;
/// use linecard_config::{Document, Rate, Varied};
/// use schemars::JsonSchema;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Clone, Default, Serialize, Deserialize, JsonSchema, Validate)]
/// #[serde(default, deny_unknown_fields)]
/// struct Link {
///     /// bits per second
///     #[garde(skip)]
///     rate: Rate,
///     /// lanes
///     #[garde(range(max = 16))]
///     lanes: u32,
/// }
///
/// let document = Document::of_text("link.toml", "rate = \"25G\"\n")?;
/// let varied = Varied::<Link>::new(document, &["lanes"])?;
/// let (link, _) = varied.at(&[4.into()])?;
/// assert_eq!((link.rate, link.lanes), (Rate::giga(25), 4));
/// let error = varied.at(&[17.into()]).err().map(|error| error.to_string());
/// assert_eq!(error.as_deref(), Some("lanes=17: 17 is out of range: choose 0 to 16"));
/// # Ok::<(), linecard_config::ConfigError>(())
/// ```
#[derive(Debug)]
pub struct Varied<C> {
    document: Document,
    /// The configuration of the document, which the values of points are put into: reading a document takes ten times
    /// as long.
    base: Value,
    varied: Vec<&'static Parameter>,
    of: PhantomData<fn() -> C>,
}

impl<C: Config> Varied<C> {
    /// Checks the document and looks up the parameters.
    ///
    /// # Errors
    ///
    /// A document with values that are refused; a key that is not a parameter.
    pub fn new<S: AsRef<str>>(document: Document, keys: &[S]) -> Result<Self, ConfigError> {
        let config: C = document.config()?;
        let base = serde_json::to_value(config).unwrap_or_default();
        let varied = keys.iter().map(|key| find::<C>(key.as_ref())).collect::<Result<_, _>>()?;
        Ok(Self { document, base, varied, of: PhantomData })
    }

    /// The parameters that vary.
    #[must_use]
    pub fn parameters(&self) -> &[&'static Parameter] {
        &self.varied
    }

    /// The configuration with a value for each varied parameter, and the document with them. A text is read as one of
    /// [`Document::set`].
    ///
    /// # Errors
    ///
    /// The first value that is refused.
    pub fn at(&self, values: &[Value]) -> Result<(C, Document), ConfigError> {
        let mut document = self.document.clone();
        for (parameter, value) in self.varied.iter().zip(values) {
            document.give(&parameter.name, value)?;
        }
        match self.quick(values) {
            Some(config) => Ok((config, document)),
            None => document.config().map(|config| (config, document)),
        }
    }

    /// The same without reading the document; nothing where a value needs a closer look.
    fn quick(&self, values: &[Value]) -> Option<C> {
        let mut all = self.base.clone();
        for (parameter, value) in self.varied.iter().zip(values) {
            let pointer = format!("/{}", parameter.name.replace('.', "/"));
            *all.pointer_mut(&pointer)? = parameter.quick(value)?;
        }
        let config = C::deserialize(all).ok()?;
        config.validate().is_ok().then_some(config)
    }
}

impl Parameter {
    /// A text of a command as a value: a number where it is one, unless the parameter is a text.
    #[must_use]
    pub fn value_of(&self, text: &str) -> Value {
        if self.is_text { text.into() } else { scalar(text) }
    }

    /// The value that a document would have, where that is plain.
    fn quick(&self, value: &Value) -> Option<Value> {
        match value {
            // Values of more than one word are left to the TOML parser.
            Value::String(text) if !self.is_text && text.contains(['"', '\'', '[', '{', '#']) => {
                None
            }
            Value::String(_) | Value::Number(_) => Some(value.clone()),
            _ => None,
        }
    }
}

/// The parameter of this name.
fn find<C: Config>(key: &str) -> Result<&'static Parameter, ConfigError> {
    let known = parameters::<C>();
    let parts: Vec<String> = key.trim().split('.').map(str::to_owned).collect();
    named(known, &parts).ok_or_else(|| {
        let names = known.iter().map(|known| known.name.clone()).collect();
        let problem = Problem::Unknown { name: key.to_owned(), known: names };
        ConfigError::new(Location::Parameter(key.to_owned()), None, problem)
    })
}
