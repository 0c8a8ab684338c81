//! How the command-line examples come to a configuration: `--brokers`, `--config FILE`, `-X property=value`, and flags
//! that stand for a property.

use std::path::PathBuf;
use steadfast::Config;

/// Where the cluster is, and any property.
#[derive(Debug, clap::Args)]
pub(crate) struct Connect {
    /// Brokers to start from (bootstrap.servers)
    #[arg(long, value_name = "HOST:PORT[,HOST:PORT]")]
    pub(crate) brokers: Option<String>,
    /// A file of properties, as Java's clients read it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Any property, by Kafka's name for it (see docs/configuration.md); overrides --config, and a later one an earlier
    #[arg(short = 'X', value_name = "PROPERTY=VALUE")]
    pub(crate) properties: Vec<String>,
}

impl Connect {
    /// The configuration, checked; `flags` are the program's own: flag, property, value. What is wrong is told in words.
    pub(crate) fn config(&self, flags: &[(&str, &str, Option<String>)]) -> Result<Config, String> {
        let mut config = match &self.config {
            Some(path) => {
                Config::from_properties_file(path).map_err(|e| format!("--config {}: {e}", path.display()))?
            }
            None => Config::from_properties::<&str, &str>([]).map_err(|e| e.to_string())?,
        };
        let mut set = Vec::new();
        for property in &self.properties {
            let (name, value) = property
                .split_once('=')
                .ok_or_else(|| format!("-X {property}: not of the form PROPERTY=VALUE"))?;
            set.push((name.trim(), value));
        }
        let brokers = ("--brokers", "bootstrap.servers", self.brokers.clone());
        let flags = flags.iter().chain([&brokers]);
        for (flag, property, value) in flags.clone() {
            let other = set.iter().rfind(|(name, _)| name == property);
            if let (Some(value), Some((_, other))) = (value, other) {
                if value != other {
                    return Err(format!(
                        "{flag} {value} contradicts -X {property}={other}: give one of them"
                    ));
                }
            }
        }
        set.extend(flags.filter_map(|(_, property, value)| Some((*property, value.as_deref()?))));
        for (property, value) in set {
            config = config.set(property, value).map_err(|e| e.to_string())?;
        }
        config.validate().map_err(|e| e.to_string())?;
        Ok(config)
    }
}
