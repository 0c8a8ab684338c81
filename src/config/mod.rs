//! Configuration: every knob by a Rust name and by Kafka's property name, from one table.

pub mod bootstrap;
mod doc;
mod fit;
mod knob;
mod knobs;
mod others;
mod overrides;
mod properties;
pub mod settings;
mod value;

use crate::error::ConfigError;
use crate::protocol::error_code::ErrorCode;
use bootstrap::BootstrapServers;
use knob::{error, Knob};
use knobs::{Given, KNOBS};
use others::Treatment;
use overrides::Overrides;
use settings::{Class, Settings};
use std::fmt;
use std::path::Path;
use value::{Limits, Value};

/// How a producer works: where its cluster is, what it promises, how much it may hold.
///
/// Each setting has a method here and a property name, Kafka's own where Kafka has one; `docs/configuration.md`
/// ([`Config::describe`]) has them all, with ranges, meanings and the reasons for the defaults. What is set last wins.
///
/// ```
/// use std::time::Duration;
/// use steadfast::{Acks, Config};
///
/// let config = Config::new("kafka-1:9092,kafka-2:9092")
///     .linger(Duration::from_millis(20))
///     .delivery_timeout(None)
///     .acks(Acks::All)
///     .set("batch.size", "500000")?;
/// assert_eq!(config.get("linger.ms").as_deref(), Some("20"));
/// assert_eq!(config.get("max.block.ms").as_deref(), Some("60000"));
///
/// let error = Config::new("kafka-1:9092").set("linger", "20").unwrap_err();
/// assert_eq!(error.to_string(), "linger: not a known property; the nearest one is `linger.ms`");
/// # Ok::<(), steadfast::ConfigError>(())
/// ```
#[derive(Clone)]
#[must_use = "a configuration does nothing until a producer is made with it"]
pub struct Config {
    given: Given,
    /// Properties that were accepted and have no effect, and why.
    ignored: Vec<(String, &'static str)>,
}

impl Config {
    /// The defaults, for the cluster that is found through these servers: `"a:9092,b:9092"` or `["a:9092", "b:9092"]`;
    /// `[address]:port` for IPv6, port 9092 where there is none.
    pub fn new(bootstrap_servers: impl BootstrapServers) -> Config {
        let mut config = Config::unset();
        config.given.bootstrap_servers = Some(bootstrap_servers.into_list());
        config
    }

    fn unset() -> Config {
        Config { given: Given::default(), ignored: Vec::new() }
    }

    /// All settings by their property names. What occurs twice, be it under two names, has the last value.
    ///
    /// # Errors
    /// A name or value that is not accepted. Whether the values fit each other is checked when a producer is made with them, or by
    /// [`Config::validate`].
    pub fn from_properties<K: AsRef<str>, V: AsRef<str>>(
        properties: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Config, ConfigError> {
        properties
            .into_iter()
            .try_fold(Config::unset(), |config, (name, value)| config.set(name.as_ref(), value.as_ref()))
    }

    /// All settings from the text of a Java `.properties` file: comments, `=`, `:` or white space between name and
    /// value, escapes and continued lines.
    ///
    /// # Errors
    /// A broken escape, or as [`Config::from_properties`].
    pub fn from_properties_text(text: &str) -> Result<Config, ConfigError> {
        Config::from_properties(properties::parse(text).map_err(|reason| error("properties", reason))?)
    }

    /// As [`Config::from_properties_text`], from a file: in UTF-8, or in Latin-1 if it isn't UTF-8.
    ///
    /// # Errors
    /// A file that can't be read, or as [`Config::from_properties_text`].
    pub fn from_properties_file(path: impl AsRef<Path>) -> Result<Config, ConfigError> {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(|e| error(&path.display().to_string(), e.to_string()))?;
        let text =
            String::from_utf8(bytes).unwrap_or_else(|e| e.into_bytes().into_iter().map(char::from).collect());
        Config::from_properties_text(&text)
    }

    /// Sets one by its property name: `set("linger.ms", "5")`. White space around name and value doesn't count.
    ///
    /// # Errors
    /// An unknown name (the error names the nearest known one), one that has no use here (the error says why), or a value out of
    /// range.
    pub fn set(mut self, property: &str, value: &str) -> Result<Config, ConfigError> {
        let (property, value) = (property.trim(), value.trim());
        let fail = |reason| error(property, reason);
        if let Some(code) = property.strip_prefix(overrides::PREFIX) {
            let code = overrides::code(code).map_err(fail)?;
            return Ok(self.override_class(code, Class::read(value, &Limits::TEXT).map_err(fail)?));
        }
        if let Some(knob) = knob(property) {
            (knob.write)(&mut self.given, value).map_err(fail)?;
            return Ok(self);
        }
        match others::find(property) {
            Some(Treatment::Ignored(why)) => {
                self.ignored.retain(|(known, _)| known != property);
                self.ignored.push((property.to_owned(), why));
                Ok(self)
            }
            Some(Treatment::Only(values, _)) if values.iter().any(|v| v.eq_ignore_ascii_case(value)) => {
                Ok(self)
            }
            Some(Treatment::Only(_, why) | Treatment::Refused(why)) => Err(fail(why.to_owned())),
            None => Err(fail(format!("not a known property; the nearest one is `{}`", nearest(property)))),
        }
    }

    /// What a property is set to, or its default; `None` for a name that is no setting.
    #[must_use]
    pub fn get(&self, property: &str) -> Option<String> {
        if let Some(code) = property.strip_prefix(overrides::PREFIX) {
            let code = overrides::code(code).ok()?;
            return Some(self.given.class_overrides.as_ref()?.0.get(&code)?.show(&Limits::TEXT));
        }
        let knob = knob(property)?;
        Some((knob.read)(&self.given).unwrap_or_else(|| knob.default.to_owned()))
    }

    /// What to do about a broker's error code, in place of what `docs/classification.md` says.
    ///
    /// Property `class.override.<CODE>`, by the code's name or number, with the values `retry-after-refresh`,
    /// `retry-after-backoff` and `drop`. Default: none, because the table is right for Kafka; some services
    /// that speak its protocol use codes their own way.
    pub fn override_class(mut self, code: ErrorCode, class: Class) -> Config {
        self.given.class_overrides.get_or_insert_with(Overrides::default).0.insert(code, class);
        self
    }

    /// Checks what making a producer would check: ranges, and whether the settings fit each other.
    ///
    /// # Errors
    /// The first setting that is wrong, with what would be right.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.settings().map(|_| ())
    }

    /// What a user may want to be told: properties that were accepted and have no effect, and values that were changed to fit
    /// others. One line each, beginning with the property's name.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let ignored = self.ignored.iter().map(|(property, why)| format!("{property}: has no effect; {why}"));
        let fitted = fit::settings(&self.given).map_or_else(|_| Vec::new(), |(_, notes)| notes);
        ignored.chain(fitted).collect()
    }

    /// Every setting with its names, range, default, meaning and the reason for its default, as Markdown: what
    /// `docs/configuration.md` holds.
    #[must_use]
    pub fn describe() -> String {
        doc::markdown()
    }

    /// Checked and fitted to each other, as the rest of the crate reads them.
    #[doc(hidden)]
    pub fn settings(&self) -> Result<Settings, ConfigError> {
        fit::settings(&self.given).map(|(settings, _)| settings)
    }
}

fn knob(property: &str) -> Option<&'static Knob> {
    KNOBS.iter().find(|knob| knob.properties.contains(&property))
}

/// The known property that looks most like this one, or whose Rust name does.
fn nearest(property: &str) -> &'static str {
    let plain = |name: &str| name.to_lowercase().replace(['_', '-'], ".");
    let wanted = plain(property);
    let distance = |name: &str| strsim::damerau_levenshtein(&plain(name), &wanted);
    let names = KNOBS.iter().flat_map(|knob| {
        let setter = knob.rust.split('(').next().unwrap_or_default();
        knob.properties.iter().map(|name| (*name, *name)).chain([(setter, knob.property())])
    });
    names.min_by_key(|(name, _)| distance(name)).map_or("bootstrap.servers", |(_, property)| property)
}

/// What was set, by property names.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = KNOBS.iter().filter_map(|knob| Some((knob.property(), (knob.read)(&self.given)?)));
        f.debug_map().entries(set).finish()
    }
}
