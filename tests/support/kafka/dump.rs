//! What `DumpLogSegments` says of the segments on disk: the witness that needs no broker and no client of ours.

use std::collections::HashMap;
use std::path::Path;
use std::str::FromStr;

/// One record batch as it lies on disk.
#[derive(Clone, Debug)]
pub struct Batch {
    pub partition: i32,
    pub base_offset: i64,
    pub last_offset: i64,
    pub count: usize,
    /// -1 without idempotence, as the next two.
    pub base_sequence: i32,
    pub producer_id: i64,
    pub producer_epoch: i16,
    /// "none", "gzip", "snappy", "lz4" or "zstd".
    pub codec: String,
    pub magic: i8,
    /// Bytes on disk, header included.
    pub size: usize,
    /// Whether the CRC is right.
    pub is_valid: bool,
    pub is_log_append_time: bool,
    pub records: Vec<DumpedRecord>,
}

/// One record. Keys and values are shown as text, so this is for printable ones; the consumer gives exact bytes.
#[derive(Clone, Debug)]
pub struct DumpedRecord {
    pub offset: i64,
    pub timestamp: i64,
    pub sequence: i32,
    pub header_names: Vec<String>,
    pub key: Option<String>,
    pub value: Option<String>,
}

/// Parses the tool's output; panics where the tool itself found fault with a segment.
pub fn read(file: &Path) -> Vec<Batch> {
    let text = String::from_utf8_lossy(&std::fs::read(file).expect("what the witness wrote")).into_owned();
    let mut batches: Vec<Batch> = Vec::new();
    let mut partition = -1;
    for line in text.lines() {
        assert!(!line.contains("secutive offsets in"), "DumpLogSegments: {line}");
        if let Some(segment) = line.strip_prefix("Dumping ") {
            partition = partition_of(segment);
        } else if line.starts_with("baseOffset: ") {
            batches.push(batch(partition, line));
        } else if let Some(rest) = line.strip_prefix("| offset: ") {
            batches.last_mut().expect("a record is in a batch").records.push(record(rest));
        }
    }
    for batch in &batches {
        assert_eq!(batch.records.len(), batch.count, "records of the batch at {}", batch.base_offset);
    }
    batches
}

/// ".../topic-7/00000000000000000000.log" is of partition 7.
fn partition_of(segment: &str) -> i32 {
    let folder = Path::new(segment).parent().and_then(Path::file_name).and_then(|n| n.to_str());
    folder
        .and_then(|name| name.rsplit('-').next())
        .and_then(|n| n.parse().ok())
        .expect("a partition's folder")
}

/// "name: value name: value ..."
fn fields(line: &str) -> HashMap<&str, &str> {
    let mut words = line.split(' ');
    let mut fields = HashMap::new();
    while let (Some(name), Some(value)) = (words.next(), words.next()) {
        fields.insert(name.trim_end_matches(':'), value);
    }
    fields
}

fn number<T: FromStr>(fields: &HashMap<&str, &str>, name: &str) -> T {
    let text = fields.get(name).unwrap_or_else(|| panic!("DumpLogSegments shows no {name}"));
    text.parse().unwrap_or_else(|_| panic!("{name}: {text}"))
}

fn batch(partition: i32, line: &str) -> Batch {
    let fields = fields(line);
    Batch {
        partition,
        base_offset: number(&fields, "baseOffset"),
        last_offset: number(&fields, "lastOffset"),
        count: number(&fields, "count"),
        base_sequence: number(&fields, "baseSequence"),
        producer_id: number(&fields, "producerId"),
        producer_epoch: number(&fields, "producerEpoch"),
        codec: number(&fields, "compresscodec"),
        magic: number(&fields, "magic"),
        size: number(&fields, "size"),
        is_valid: number(&fields, "isvalid"),
        is_log_append_time: fields.contains_key("LogAppendTime"),
        records: Vec::new(),
    }
}

/// What follows "| offset: "; key and value come last and may hold anything.
fn record(rest: &str) -> DumpedRecord {
    let (head, tail) = rest.split_once(" headerKeys: [").expect("headerKeys");
    let (names, content) = tail.split_once(']').expect("the end of headerKeys");
    let (offset, head) = head.split_once(' ').expect("more than an offset");
    let fields = fields(head);
    let has_key = number::<i64>(&fields, "keySize") >= 0;
    let has_value = number::<i64>(&fields, "valueSize") >= 0;
    let (key, value) = if has_value {
        let (key, value) = content.split_once(" payload: ").expect("a payload");
        (key, Some(value.to_owned()))
    } else {
        (content, None)
    };
    DumpedRecord {
        offset: offset.parse().expect("an offset"),
        timestamp: fields
            .get("CreateTime")
            .or(fields.get("LogAppendTime"))
            .and_then(|t| t.parse().ok())
            .expect("a timestamp"),
        sequence: number(&fields, "sequence"),
        header_names: names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect(),
        key: has_key.then(|| key.strip_prefix(" key: ").expect("a key").to_owned()),
        value,
    }
}
