//! Records as Kafka's consumer read them, out of the witness's file.

use std::path::Path;

/// Whose clock a timestamp is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampKind {
    Create,
    LogAppend,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumedRecord {
    pub partition: i32,
    pub offset: i64,
    pub timestamp: i64,
    pub timestamp_kind: TimestampKind,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

/// Hex for the witness; "-" is null.
pub fn hex(bytes: Option<&[u8]>) -> String {
    use std::fmt::Write as _;
    let Some(bytes) = bytes else { return "-".to_owned() };
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |c: u8| (c as char).to_digit(16).expect("a hex digit") as u8;
    (text != "-")
        .then(|| text.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect())
}

pub fn read(file: &Path) -> Vec<ConsumedRecord> {
    let text = std::fs::read_to_string(file).expect("what the witness wrote");
    text.lines().map(parse).collect()
}

fn parse(line: &str) -> ConsumedRecord {
    let fields: Vec<&str> = line.split('\t').collect();
    let header = |field: &&str| {
        let (name, value) = field.split_once(':').expect("name and value");
        let name = unhex(name).expect("a name is never null");
        (String::from_utf8(name).expect("a name is UTF-8"), unhex(value))
    };
    ConsumedRecord {
        partition: fields[0].parse().expect("a partition"),
        offset: fields[1].parse().expect("an offset"),
        timestamp: fields[2].parse().expect("a timestamp"),
        timestamp_kind: match fields[3] {
            "CreateTime" => TimestampKind::Create,
            "LogAppendTime" => TimestampKind::LogAppend,
            other => panic!("timestamp type {other}"),
        },
        key: unhex(fields[4]),
        value: unhex(fields[5]),
        headers: fields[6..].iter().map(header).collect(),
    }
}
