//! The command line.

use crate::connect::Connect;
use crate::input::Separators;
use clap::builder::PossibleValuesParser;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use steadfast::Config;

/// Sends lines of standard input to a Kafka topic, each as it arrives.
#[derive(Debug, clap::Parser)]
#[command(
    name = "produce",
    after_help = "A line is all bytes up to the newline; an empty line is an empty value. With both separators a line is \
                  TIMESTAMP SEPARATOR KEY SEPARATOR VALUE. Escapes are the shell's: --key-separator $'\\t'.\n\n\
                  Exit status: 0 everything was delivered; 1 something was dropped; 2 used wrongly, and nothing was sent."
)]
pub(crate) struct Args {
    #[command(flatten)]
    connect: Connect,
    /// The topic to send to
    #[arg(long)]
    pub(crate) topic: String,
    /// A line is split into key and value at the first of these; a line without one has no key
    #[arg(long, value_name = "S", allow_hyphen_values = true)]
    key_separator: Option<OsString>,
    /// What is before the first of these is the create time in milliseconds since 1970
    #[arg(long, value_name = "S", allow_hyphen_values = true)]
    timestamp_separator: Option<OsString>,
    /// A header for every message; may be repeated, also with the same name
    #[arg(long = "header", value_name = "NAME=VALUE", allow_hyphen_values = true)]
    headers: Vec<OsString>,
    /// Send everything to this partition
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    pub(crate) partition: Option<i32>,
    /// Compress batches (compression.type)
    #[arg(long, value_name = "CODEC", value_parser = PossibleValuesParser::new(["none", "gzip", "snappy", "lz4", "zstd"]))]
    compression: Option<String>,
    /// How many replicas must have a message (acks)
    #[arg(long, value_name = "N", value_parser = PossibleValuesParser::new(["0", "1", "all"]))]
    acks: Option<String>,
    /// End with one line of JSON on standard output: sent, delivered, dropped, retries, seconds
    #[arg(long)]
    pub(crate) json: bool,
    /// Write what became of each line to this file, one JSON object a line, in order
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
}

impl Args {
    /// The producer's configuration, or what is wrong with it.
    pub(crate) fn config(&self) -> Result<Config, String> {
        self.connect.config(&[
            ("--compression", "compression.type", self.compression.clone()),
            ("--acks", "acks", self.acks.clone()),
        ])
    }

    pub(crate) fn separators(&self) -> Result<Separators, String> {
        Ok(Separators {
            timestamp: separator("--timestamp-separator", self.timestamp_separator.as_deref())?,
            key: separator("--key-separator", self.key_separator.as_deref())?,
        })
    }

    /// Names and values; a value may be any bytes.
    pub(crate) fn headers(&self) -> Result<Vec<(String, Vec<u8>)>, String> {
        self.headers.iter().map(|header| parse_header(header)).collect()
    }
}

fn separator(flag: &str, given: Option<&OsStr>) -> Result<Option<Vec<u8>>, String> {
    match given.map(OsStr::as_encoded_bytes) {
        Some([]) => Err(format!("{flag}: an empty separator separates nothing")),
        Some(bytes) if bytes.contains(&b'\n') => Err(format!("{flag}: a line has no newline in it")),
        given => Ok(given.map(<[u8]>::to_vec)),
    }
}

fn parse_header(header: &OsStr) -> Result<(String, Vec<u8>), String> {
    let wrong = |what| format!("--header {}: {what}", header.to_string_lossy());
    let bytes = header.as_encoded_bytes();
    let at =
        bytes.iter().position(|&byte| byte == b'=').ok_or_else(|| wrong("not of the form NAME=VALUE"))?;
    let name = std::str::from_utf8(&bytes[..at]).map_err(|_| wrong("the name is not UTF-8"))?;
    Ok((name.to_owned(), bytes[at + 1..].to_vec()))
}
