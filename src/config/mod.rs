//! Configuration: every knob by a Rust name and by Kafka's property name, from one table.

pub mod bootstrap;
mod fit;
mod knob;
mod knobs;
mod overrides;
pub mod settings;
mod value;

use crate::error::ConfigError;
use crate::protocol::error_code::ErrorCode;
use bootstrap::BootstrapServers;
use knob::{error, Knob};
use knobs::{Given, KNOBS};
use overrides::Overrides;
use settings::{Class, Settings};
use std::fmt;
use value::{Limits, Value};

/// How a producer works: where its cluster is, what it promises, how much it may hold.
#[derive(Clone)]
pub struct Config {
    given: Given,
}

impl Config {
    /// The defaults, for a cluster that is found through these servers.
    pub fn new(bootstrap_servers: impl BootstrapServers) -> Config {
        let given = Given { bootstrap_servers: Some(bootstrap_servers.into_list()), ..Given::default() };
        Config { given }
    }

    /// Sets one knob by its property name.
    pub fn set(mut self, property: &str, value: &str) -> Result<Config, ConfigError> {
        let (property, value) = (property.trim(), value.trim());
        if let Some(code) = property.strip_prefix(overrides::PREFIX) {
            let fail = |reason| error(property, reason);
            let code = overrides::code(code).map_err(fail)?;
            return Ok(self.override_class(code, Class::read(value, &Limits::TEXT).map_err(fail)?));
        }
        let knob = knob(property).ok_or_else(|| error(property, "not a known property"))?;
        (knob.write)(&mut self.given, value).map_err(|reason| error(property, reason))?;
        Ok(self)
    }

    /// All knobs by their property names.
    pub fn from_properties<K: AsRef<str>, V: AsRef<str>>(
        properties: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Config, ConfigError> {
        let config = Config { given: Given::default() };
        properties.into_iter().try_fold(config, |config, (k, v)| config.set(k.as_ref(), v.as_ref()))
    }

    /// The user's own class for an error code of the brokers.
    pub fn override_class(mut self, code: ErrorCode, class: Class) -> Config {
        self.given.class_overrides.get_or_insert_with(Overrides::default).0.insert(code, class);
        self
    }

    /// Checked and fitted to each other.
    pub fn settings(&self) -> Result<Settings, ConfigError> {
        fit::settings(&self.given).map(|(settings, _)| settings)
    }

    /// What the user may want to know about how the settings came about.
    pub fn notes(&self) -> Vec<String> {
        fit::settings(&self.given).map_or_else(|_| Vec::new(), |(_, notes)| notes)
    }
}

fn knob(property: &str) -> Option<&'static Knob> {
    KNOBS.iter().find(|knob| knob.properties.contains(&property))
}

/// What was set, by property names.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = KNOBS.iter().filter_map(|knob| Some((knob.property(), (knob.read)(&self.given)?)));
        f.debug_map().entries(set).finish()
    }
}
