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
    /// Any property, by Kafka's name for it (see docs/configuration.md); goes before --config, and a later one before an earlier
    #[arg(short = 'X', value_name = "PROPERTY=VALUE")]
    pub(crate) properties: Vec<String>,
}

impl Connect {
    /// The configuration, checked; `flags` are the program's own: flag, property, value. What is wrong is told in words.
    pub(crate) fn config(&self, flags: &[(&str, &str, Option<String>)]) -> Result<Config, String> {
        let mut all = Vec::new();
        if let Some(path) = &self.config {
            let text =
                std::fs::read_to_string(path).map_err(|e| format!("--config {}: {e}", path.display()))?;
            all = properties(&text);
        }
        let mut by_x: Vec<(String, String)> = Vec::new();
        for property in &self.properties {
            let (name, value) = property
                .split_once('=')
                .ok_or_else(|| format!("-X {property}: not of the form PROPERTY=VALUE"))?;
            by_x.push((name.trim().to_owned(), value.to_owned()));
        }
        all.extend(by_x.iter().cloned());
        let brokers = ("--brokers", "bootstrap.servers", self.brokers.clone());
        for (flag, property, value) in flags.iter().chain([&brokers]) {
            let Some(value) = value else { continue };
            if let Some((_, other)) = by_x.iter().rfind(|(name, other)| name == property && other != value) {
                return Err(format!("{flag} {value} contradicts -X {property}={other}: give one of them"));
            }
            all.push(((*property).to_owned(), value.clone()));
        }
        let config = Config::from_properties(all).map_err(|e| e.to_string())?;
        config.settings().map_err(|e| e.to_string())?;
        Ok(config)
    }
}

/// The pairs of a Java properties file, in order: `name=value`, `name: value` or `name value`; lines that start with # or !
/// are comments, a backslash at the end of a line joins it with the next one, and escapes are \t \n \r \f \uXXXX.
pub(crate) fn properties(text: &str) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let mut line = line.trim_start().to_owned();
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        while ends_in_escape(&line) {
            line.pop();
            line.push_str(lines.next().unwrap_or_default().trim_start());
        }
        let (name, rest) = line.split_at(name_length(&line));
        let rest = rest.trim_start();
        let value = rest.strip_prefix(['=', ':']).unwrap_or(rest).trim_start();
        pairs.push((unescape(name), unescape(value)));
    }
    pairs
}

/// Whether its last backslash escapes the end of the line.
fn ends_in_escape(line: &str) -> bool {
    line.bytes().rev().take_while(|&byte| byte == b'\\').count() % 2 == 1
}

fn name_length(line: &str) -> usize {
    let mut escaped = false;
    for (at, c) in line.char_indices() {
        if !escaped && (c == '=' || c == ':' || c.is_whitespace()) {
            return at;
        }
        escaped = c == '\\' && !escaped;
    }
    line.len()
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('t') => out.push('\t'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('f') => out.push('\x0c'),
            Some('u') => {
                let digits: String = chars.by_ref().take(4).collect();
                let code = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
                out.push(code.unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            Some(other) => out.push(other),
            None => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_properties_file_is_read_as_java_reads_it() {
        let text = "# comment\n! too\n\n  acks=all\nlinger.ms : 5\nclient.id me and you\nempty=\nbare\n\
                    path=C:\\\\temp\\\nmore\nlong = a,\\\n    b\nspaced\\ name=\\u0041\\t=:\n";
        let expected = [
            ("acks", "all"),
            ("linger.ms", "5"),
            ("client.id", "me and you"),
            ("empty", ""),
            ("bare", ""),
            ("path", "C:\\tempmore"),
            ("long", "a,b"),
            ("spaced name", "A\t=:"),
        ];
        let expected: Vec<(String, String)> =
            expected.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        assert_eq!(properties(text), expected);
    }
}
