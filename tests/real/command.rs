//! The `produce` example, as a program, on real Kafka.

use crate::programs::{example, run, start, until};
use crate::support::kafka;
use std::collections::HashMap;
use std::io::Write;

const LINES: usize = 200_000;

/// Keyed lines of random length, some of them empty, through `produce --compression lz4`: the report, and what Kafka's consumer
/// reads, have each of them once, in the order of its key, with one partition per key.
#[test]
fn command_sends_every_line() {
    let Some(cluster) = kafka::one() else { return };
    cluster.create_topic("command-lines", 5, 1, &[]);
    let mut random = fastrand::Rng::with_seed(5);
    let mut input = Vec::new();
    let mut expected: HashMap<Vec<u8>, Vec<Vec<u8>>> = HashMap::new();
    for _ in 0..LINES {
        let key = format!("key {}", random.u32(0..1000)).into_bytes();
        let length = if random.u8(..) == 0 { random.usize(0..20_000) } else { random.usize(0..200) };
        // Any byte but the newline, the separator among them.
        let value: Vec<u8> = (0..length).map(|_| random.u8(11..=255)).collect();
        input.extend([&key[..], b"::", &value, b"\n"].concat());
        expected.entry(key).or_default().push(value);
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let report = folder.path().join("report");
    let mut command = example("produce");
    command.args(["--brokers", &cluster.bootstrap(), "--topic", "command-lines", "--key-separator", "::"]);
    command.args(["--compression", "lz4", "--json", "--report"]).arg(&report);
    let ended = run(command, &input);
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    let json = ended.json();
    assert_eq!(
        (&json["sent"], &json["delivered"], &json["dropped"]),
        (&LINES.into(), &LINES.into(), &0.into())
    );

    let mut found: HashMap<Vec<u8>, Vec<Vec<u8>>> = HashMap::new();
    let mut partitions: HashMap<Vec<u8>, i32> = HashMap::new();
    let mut places: HashMap<(i32, i64), i64> = HashMap::new();
    for record in cluster.consume("command-lines") {
        let key = record.key.expect("a key");
        assert_eq!(*partitions.entry(key.clone()).or_insert(record.partition), record.partition);
        found.entry(key).or_default().push(record.value.expect("a value"));
        places.insert((record.partition, record.offset), record.timestamp);
    }
    assert!(found == expected, "what was read is not what was sent");
    assert!(
        partitions.values().collect::<std::collections::HashSet<_>>().len() == 5,
        "all partitions were used"
    );

    let text = std::fs::read_to_string(report).expect("the report is there");
    let mut lines = 0;
    for (index, line) in text.lines().enumerate() {
        let entry: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(entry["index"], index);
        let number = |name: &str| entry[name].as_i64().unwrap_or_else(|| panic!("no {name} in {entry}"));
        let timestamp = places.remove(&(number("partition") as i32, number("offset")));
        assert_eq!(timestamp, Some(number("timestamp")), "{entry}");
        lines += 1;
    }
    assert_eq!(lines, LINES);
}

/// A line is in Kafka's log while the input is still open.
#[test]
fn command_sends_a_line_as_it_arrives() {
    let Some(cluster) = kafka::one() else { return };
    cluster.create_topic("command-live", 1, 1, &[]);
    let mut command = example("produce");
    command.args(["--brokers", &cluster.bootstrap(), "--topic", "command-live"]);
    let mut running = start(command);
    running.stdin.as_mut().expect("piped").write_all(b"now\n").expect("it reads");
    until("the line is in the log", || cluster.end_offsets("command-live") == [1]);
    drop(running.stdin.take());
    assert_eq!(running.end().code(), Some(0));
}
