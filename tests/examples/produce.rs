use crate::support::{example, folder, run, signal, start, until, Ended, SOON};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use steadfast::internal::engine::partitioner::{keyed, murmur2};
use steadfast::testing::{Cluster, Fault, LoggedMessage, On, Times, TopicSpec};
use steadfast::ErrorCode;

fn produce(cluster: &Cluster, args: &[&str]) -> Command {
    let mut command = example("produce");
    command.args(["--brokers", &cluster.bootstrap(), "--topic", "t"]).args(args);
    command
}

fn cluster(partitions: i32) -> Cluster {
    Cluster::builder().brokers(1).topic(("t", partitions)).start().expect("ports")
}

fn report(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("the report is there");
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

/// Delivered, dropped; and that every line is one of the two.
fn counts(ended: &Ended) -> (u64, u64) {
    let json = ended.json();
    let count = |key: &str| json[key].as_u64().unwrap_or_else(|| panic!("no {key} in {json}"));
    assert_eq!(count("sent"), count("delivered") + count("dropped"), "{json}");
    assert!(json["seconds"].is_number() && json["retries"].is_u64(), "{json}");
    (count("delivered"), count("dropped"))
}

fn values(cluster: &Cluster) -> Vec<Vec<u8>> {
    cluster.messages("t").into_iter().map(|message| message.value.expect("a line is never null")).collect()
}

#[test]
fn lines_arrive_as_they_are_and_the_report_tells_of_each() {
    let cluster = cluster(1);
    let (_folder, path) = folder();
    let mut command = produce(&cluster, &["--json"]);
    command.arg("--report").arg(path("report"));
    let ended = run(command, b"one\n\n\0 \xff\r\n  two words \nlast");
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert_eq!(ended.stderr, "");
    assert_eq!(ended.stdout.lines().count(), 1, "{ended:?}");
    assert_eq!(counts(&ended), (5, 0));
    let expected: [&[u8]; 5] = [b"one", b"", b"\0 \xff\r", b"  two words ", b"last"];
    assert_eq!(values(&cluster), expected);

    let logged = cluster.messages("t");
    assert!(logged.iter().all(|message| message.key.is_none() && message.headers.is_empty()));
    let report = report(&path("report"));
    assert_eq!(report.len(), 5);
    for (index, (entry, logged)) in report.iter().zip(&logged).enumerate() {
        assert_eq!(entry["index"], index, "{entry}");
        assert_eq!(entry["partition"], 0, "{entry}");
        assert_eq!(entry["offset"], index, "{entry}");
        assert_eq!(entry["timestamp"], logged.timestamp, "{entry}");
        assert_eq!(entry["timestamp_type"], "create", "{entry}");
        assert!(entry["ms"].is_u64(), "{entry}");
    }
}

#[test]
fn without_json_it_says_nothing_on_a_pipe() {
    let cluster = cluster(1);
    let ended = run(produce(&cluster, &[]), b"one\ntwo\n");
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("", ""));
    let nothing = run(produce(&cluster, &["--json"]), b"");
    assert_eq!(nothing.code(), Some(0), "{nothing:?}");
    assert_eq!(counts(&nothing), (0, 0));
}

#[test]
fn a_line_is_sent_when_it_arrives() {
    let cluster = cluster(1);
    let mut running = start(produce(&cluster, &["--json"]));
    let stdin = running.stdin.as_mut().expect("piped");
    for count in 1..=3 {
        stdin.write_all(b"line\n").expect("it reads");
        until("the line is in the log, with the input still open", || cluster.end_offset("t", 0) == count);
    }
    drop(running.stdin.take());
    assert_eq!(counts(&running.end()), (3, 0));
}

#[test]
fn lines_are_split_and_get_headers_and_a_partition() {
    let cluster = cluster(3);
    let args = [
        "--timestamp-separator",
        "|",
        "--key-separator",
        "::",
        "--partition",
        "2",
        "--header",
        "a=1",
        "--header",
    ];
    let mut command = produce(&cluster, &args);
    command.args(["a=2=3", "--header", "b="]);
    let ended =
        run(command, b"1700000000001|k::v::w\n1700000000002|::empty key\n1700000000003|no key\n5|k::\n");
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    let messages = cluster.messages_of("t", 2);
    let text = |bytes: &Vec<u8>| String::from_utf8(bytes.clone()).expect("text");
    let shown = |m: &LoggedMessage| {
        format!("{} {:?} {:?}", m.timestamp, m.key.as_ref().map(text), m.value.as_ref().map(text))
    };
    let found: Vec<String> = messages.iter().map(shown).collect();
    let expected = [
        r#"1700000000001 Some("k") Some("v::w")"#,
        r#"1700000000002 Some("") Some("empty key")"#,
        r#"1700000000003 None Some("no key")"#,
        r#"5 Some("k") Some("")"#,
    ];
    assert_eq!(found, expected);
    let header = |name: &str, value: &str| (name.to_owned(), Some(value.as_bytes().to_vec()));
    for message in &messages {
        assert_eq!(message.headers, [header("a", "1"), header("a", "2=3"), header("b", "")]);
    }
}

#[test]
fn every_codec_and_acks_arrive() {
    for args in [
        ["--compression", "gzip", "--acks", "all"],
        ["--compression", "snappy", "--acks", "1"],
        ["--compression", "lz4", "--acks", "all"],
        ["--compression", "none", "--acks", "0"],
    ] {
        let cluster = cluster(1);
        let (_folder, path) = folder();
        let mut command = produce(&cluster, &args);
        command.arg("--json").arg("--report").arg(path("report"));
        let line = "all the same ".repeat(100);
        let ended = run(command, format!("{line}\n{line}\n").as_bytes());
        assert_eq!(ended.code(), Some(0), "{args:?}: {ended:?}");
        until("both are in the log", || cluster.end_offset("t", 0) == 2);
        assert_eq!(values(&cluster), [line.as_bytes(), line.as_bytes()], "{args:?}");
        let offset = if args[3] == "0" { -1 } else { 1 };
        assert_eq!(report(&path("report"))[1]["offset"], offset, "{args:?}");
    }
}

#[test]
fn log_append_time_is_reported() {
    let cluster =
        Cluster::builder().brokers(1).topic(TopicSpec::new("t").log_append_time()).start().expect("ports");
    let (_folder, path) = folder();
    let mut command = produce(&cluster, &["--timestamp-separator", ":"]);
    command.arg("--report").arg(path("report"));
    let ended = run(command, b"17:line\n");
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    let entry = &report(&path("report"))[0];
    assert_eq!(entry["timestamp_type"], "log_append", "{entry}");
    assert_eq!(entry["timestamp"], cluster.messages("t")[0].timestamp, "{entry}");
    assert_ne!(entry["timestamp"], 17, "{entry}");
}

#[test]
fn wrong_use_is_told_before_anything_is_sent() {
    let cluster = cluster(1);
    let (_folder, path) = folder();
    std::fs::write(path("bad.properties"), "linger.ms=5\nlinger.millis=6\n").expect("a file");
    let bad_file = path("bad.properties");
    let bad_file = bad_file.to_str().expect("UTF-8");
    let cases: [(&[&str], &str); 21] = [
        (&["--no-such-flag"], "--no-such-flag"),
        (&["--compression", "rar"], "rar"),
        (&["--acks", "2"], "2"),
        (&["--partition", "-1"], "-1"),
        (&["--partition", "x"], "x"),
        (&["-X", "no.such.property=1"], "no.such.property"),
        (&["-X", "linger.ms=soon"], "linger.ms"),
        (&["-X", "linger.ms"], "PROPERTY=VALUE"),
        (&["-X", "acks=0", "-X", "enable.idempotence=true"], "idempotence"),
        (&["--acks", "1", "-X", "acks=all"], "contradicts"),
        (&["-X", "bootstrap.servers=elsewhere:1"], "contradicts"),
        (&["-X", "delivery.timeout.ms=100", "-X", "request.timeout.ms=5000"], "delivery.timeout.ms"),
        (&["-X", "group.id=g"], "group.id"),
        (&["--key-separator", ""], "--key-separator"),
        (&["--timestamp-separator", "\n"], "--timestamp-separator"),
        (&["--header", "no value"], "NAME=VALUE"),
        (&["--report", "/no/such/folder/report"], "--report"),
        (&["--config", "/no/such/file"], "--config"),
        (&["--config", bad_file], "linger.millis"),
        (&["--topic", "again"], "topic"),
        (&["an argument"], "an argument"),
    ];
    for (args, told) in cases {
        let ended = run(produce(&cluster, args), b"line\n");
        assert_eq!(ended.code(), Some(2), "{args:?}: {ended:?}");
        assert!(ended.stderr.contains(told), "{args:?}: {ended:?}");
        assert_eq!(ended.stdout, "", "{args:?}");
    }
    let mut command = example("produce");
    command.args(["--brokers", &cluster.bootstrap(), "--topic", "not a topic"]);
    let ended = run(command, b"line\n");
    assert_eq!(ended.code(), Some(2), "{ended:?}");
    assert!(ended.stderr.contains("--topic"), "{ended:?}");
    let mut command = example("produce");
    command.args(["--topic", "t"]);
    let ended = run(command, b"line\n");
    assert_eq!(ended.code(), Some(2), "{ended:?}");
    assert!(ended.stderr.contains("bootstrap.servers"), "{ended:?}");
    assert_eq!(cluster.requests().produce, 0);
}

#[test]
fn properties_come_from_a_file_too() {
    let cluster = cluster(1);
    let (_folder, path) = folder();
    let text = format!("bootstrap.servers={}\ncompression.type = gzip\n", cluster.bootstrap());
    std::fs::write(path("p"), text).expect("a file");
    let mut command = example("produce");
    command.args(["--topic", "t", "--config"]).arg(path("p")).args(["-X", "compression.type=lz4"]);
    let ended = run(command, b"line\n");
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert_eq!(values(&cluster), [b"line"]);
}

#[test]
fn without_a_broker_it_ends_in_time_and_says_so_once() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let nobody = listener.local_addr().expect("an address").to_string();
    drop(listener);
    let (_folder, path) = folder();
    let mut command = example("produce");
    command.args(["--brokers", &nobody, "--topic", "t", "--json", "-X", "delivery.timeout.ms=1500"]);
    command.args(["-X", "request.timeout.ms=1000", "--report"]).arg(path("report"));
    let ended = run(command, b"1\n2\n3\n");
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    assert!(ended.after < Duration::from_secs(6), "{ended:?}");
    assert_eq!(counts(&ended), (0, 3));
    assert_eq!(ended.stderr.matches("produce:").count(), 1, "told once: {ended:?}");
    assert!(ended.stderr.contains("3 lines dropped, not written"), "{ended:?}");
    assert!(ended.stderr.contains(&nobody), "{ended:?}");
    for (index, entry) in report(&path("report")).iter().enumerate() {
        assert_eq!(entry["index"], index, "{entry}");
        assert_eq!(entry["fate"], "not_written", "{entry}");
        assert_eq!(entry["attempts"], 0, "{entry}");
        assert!(entry["error"].is_string(), "{entry}");
        assert!(entry["ms"].as_u64().is_some_and(|ms| (1500..4000).contains(&ms)), "{entry}");
    }
}

#[test]
fn each_cause_is_told_once_and_the_rest_is_delivered() {
    let cluster =
        Cluster::builder().brokers(1).topic(TopicSpec::new("t").compacted()).start().expect("ports");
    let (_folder, path) = folder();
    let mut command = produce(&cluster, &["--key-separator", ":", "--timestamp-separator", "@", "--json"]);
    command.args(["-X", "max.request.size=2000", "--report"]).arg(path("report"));
    let input = format!("1@k:v\n2@no key\nno time\n3@k:{}\n4@no key\n5@k:last\n", "x".repeat(3000));
    let ended = run(command, input.as_bytes());
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    assert_eq!(counts(&ended), (2, 4));
    assert_eq!(values(&cluster), [&b"v"[..], b"last"]);
    assert_eq!(ended.stderr.matches("produce:").count(), 3, "{ended:?}");
    let told = |text: &str| assert_eq!(ended.stderr.matches(text).count(), 1, "{text}: {ended:?}");
    told("2 lines dropped, not written");
    told("use --key-separator");
    told("the line has no timestamp");
    told("max.request.size");
    let dropped: Vec<bool> = report(&path("report")).iter().map(|entry| entry["error"].is_string()).collect();
    assert_eq!(dropped, [false, true, true, true, true, false]);
}

#[test]
fn a_mebibyte_is_a_line_and_what_never_fits_is_dropped_alone() {
    let cluster = Cluster::builder()
        .brokers(1)
        .topic(TopicSpec::new("t").max_message_bytes(3 << 20))
        .start()
        .expect("ports");
    let mebibyte = vec![b'm'; 1 << 20];
    let mut input = mebibyte.clone();
    input.extend_from_slice(b"\nsmall\n");
    input.extend(std::iter::repeat_n(b'h', 5 << 20));
    input.extend_from_slice(b"\nafter");
    let args = ["--json", "-X", "buffer.memory=4194304", "-X", "max.request.size=4194304"];
    let ended = run(produce(&cluster, &args), &input);
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    assert_eq!(counts(&ended), (3, 1));
    assert_eq!(values(&cluster), [&mebibyte[..], b"small", b"after"]);
    assert!(ended.stderr.contains("5242880 bytes"), "{ended:?}");
}

#[test]
fn retries_are_counted_and_drops_after_them_told_with_attempts() {
    let cluster = cluster(1);
    let refused = Fault::error(ErrorCode::NotEnoughReplicas);
    cluster.fault(On::partition("t", 0), Times::Next(3), refused);
    let (_folder, path) = folder();
    let retry = ["--json", "-X", "batch_retries_limit=1", "-X", "batch_retry_backoff_ms=10"];
    let mut command = produce(&cluster, &retry);
    command.arg("--report").arg(path("report"));
    let ended = run(command, b"line\n");
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    assert_eq!(counts(&ended), (0, 1));
    assert_eq!(ended.json()["retries"], 1);
    assert!(ended.stderr.contains("NOT_ENOUGH_REPLICAS"), "{ended:?}");
    assert!(ended.stderr.contains("min.insync.replicas"), "{ended:?}");
    let entry = &report(&path("report"))[0];
    assert_eq!(
        (entry["attempts"].as_u64(), entry["fate"].as_str()),
        (Some(2), Some("not_written")),
        "{entry}"
    );
    // One refusal is left: this one is delivered by a retry.
    let ended = run(produce(&cluster, &retry), b"line\n");
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert_eq!(ended.json()["retries"], 1);
}

#[test]
fn a_broker_that_has_lost_what_it_acknowledged_is_told_as_such() {
    let cluster = cluster(1);
    let mut running = start(produce(&cluster, &["--json", "-X", "batch_retry_backoff_ms=10"]));
    let stdin = running.stdin.as_mut().expect("piped");
    stdin.write_all(b"line\n").expect("it reads");
    until("the first line is acknowledged", || cluster.end_offset("t", 0) == 1);
    let forgotten = Fault::error(ErrorCode::OutOfOrderSequenceNumber);
    cluster.fault(On::partition("t", 0), Times::Always, forgotten);
    stdin.write_all(b"line\n").expect("it reads");
    drop(running.stdin.take());
    let ended = running.end();
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    assert_eq!(counts(&ended), (1, 1));
    let told = ended.stderr.matches("acknowledged messages may be gone from the log").count();
    assert_eq!(told, 1, "{ended:?}");
}

#[test]
fn an_unanswered_line_may_be_in_the_log() {
    let cluster = cluster(1);
    cluster.fault(On::partition("t", 0), Times::Always, Fault::lose_response());
    let (_folder, path) = folder();
    let mut command = produce(&cluster, &["--json", "-X", "delivery.timeout.ms=1000"]);
    command.args(["-X", "request.timeout.ms=300", "--report"]).arg(path("report"));
    let ended = run(command, b"line\n");
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    assert!(ended.stderr.contains("may be in the log all the same"), "{ended:?}");
    assert_eq!(report(&path("report"))[0]["fate"], "unknown");
    assert_eq!(values(&cluster), [b"line"], "and there it is, once");
}

#[test]
fn ctrl_c_ends_it_shortly_and_reports_what_was_left() {
    let cluster = cluster(1);
    cluster.fault(On::partition("t", 0), Times::Always, Fault::swallow());
    let (_folder, path) = folder();
    let mut command = produce(&cluster, &["--json"]);
    command.arg("--report").arg(path("report"));
    let mut running = start(command);
    running.stdin.as_mut().expect("piped").write_all(b"1\n2\n3\n").expect("it reads");
    until("the lines are on their way", || cluster.requests().produce > 0);
    let asked = Instant::now();
    signal(&running, Signal::SIGINT);
    let ended = running.end_within(SOON);
    assert!(asked.elapsed() < Duration::from_secs(8), "a short bound: {:?}", asked.elapsed());
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    assert_eq!(counts(&ended), (0, 3));
    assert!(ended.stderr.contains("3 lines"), "{ended:?}");
    assert_eq!(report(&path("report")).len(), 3);
}

#[test]
fn ctrl_c_with_nothing_left_is_a_good_end() {
    let cluster = cluster(1);
    let mut running = start(produce(&cluster, &["--json"]));
    running.stdin.as_mut().expect("piped").write_all(b"1\n2\nhalf a li").expect("it reads");
    until("the lines are in the log", || cluster.end_offset("t", 0) == 2);
    signal(&running, Signal::SIGINT);
    let ended = running.end();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert_eq!(counts(&ended), (2, 0));
}

#[test]
fn a_full_buffer_holds_the_reader_and_then_drops_the_line() {
    let cluster = cluster(1);
    cluster.fault(On::partition("t", 0), Times::Always, Fault::swallow());
    let args =
        ["--json", "-X", "buffer.memory=100000", "-X", "max.block.ms=200", "-X", "delivery.timeout.ms=3000"];
    let mut command = produce(&cluster, &args);
    command.args(["-X", "request.timeout.ms=2900"]);
    let line = "x".repeat(40_000);
    let ended = run(command, format!("{line}\n{line}\n{line}\n").as_bytes());
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    assert_eq!(counts(&ended), (0, 3));
    assert!(ended.stderr.contains("buffer.memory"), "{ended:?}");
}

/// A port that answers as a TLS server does to plain text: with an alert.
#[test]
fn a_port_that_speaks_tls_is_recognised() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        let mut open: Vec<TcpStream> = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            // Alert, TLS 1.2, 2 bytes: fatal, unexpected_message.
            _ = stream.write_all(&[0x15, 3, 3, 0, 2, 2, 10]);
            open.push(stream);
        }
    });
    let mut command = example("produce");
    command.args(["--brokers", &address, "--topic", "t", "-X", "delivery.timeout.ms=1000"]);
    command.args(["-X", "request.timeout.ms=900"]);
    let ended = run(command, b"line\n");
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    assert!(ended.stderr.contains("TLS"), "{ended:?}");
}

#[test]
fn an_advertised_address_that_cannot_be_reached_is_named() {
    let cluster = cluster(1);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let nobody = listener.local_addr().expect("an address");
    drop(listener);
    cluster.advertise(1, "127.0.0.1", nobody.port());
    let args = ["-X", "delivery.timeout.ms=1000", "-X", "request.timeout.ms=900"];
    let ended = run(produce(&cluster, &args), b"line\n");
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    assert!(ended.stderr.contains(&nobody.to_string()), "{ended:?}");
    assert!(ended.stderr.contains("advertised"), "{ended:?}");
}

/// Half of the lines wait for a partition without a leader while the others go on: the report must not grow with them.
#[cfg(target_os = "linux")]
#[test]
fn memory_is_bounded_with_a_partition_that_waits() {
    let cluster = cluster(2);
    cluster.move_leader("t", 0, None);
    let (_folder, path) = folder();
    let args =
        ["--key-separator", ":", "--json", "-X", "buffer.memory=1000000", "-X", "delivery.timeout.ms=4000"];
    let mut command = produce(&cluster, &args);
    command
        .args(["-X", "request.timeout.ms=3900", "-X", "max.block.ms=20000", "--report"])
        .arg(path("report"));
    let mut running = start(command);
    let stdin = running.stdin.take().expect("piped");
    // Few go to the partition that waits, so that they don't fill the buffer; many go to the other one.
    let key_for = |partition| {
        let is_for = |key: &u32| keyed(murmur2(key.to_string().as_bytes()), 2) == partition;
        (0..).find(is_for).expect("half of all keys are")
    };
    let (waiting, going) = (key_for(0), key_for(1));
    let writer = std::thread::spawn(move || {
        let mut stdin = std::io::BufWriter::new(stdin);
        for number in 0..300_000 {
            let key = if number % 10_000 == 0 { waiting } else { going };
            stdin.write_all(format!("{key}:{number}\n").as_bytes()).expect("it reads");
        }
    });
    let pid = running.pid();
    let mut peak_kib = 0;
    while !writer.is_finished() {
        peak_kib = peak_kib.max(resident_kib(pid));
        std::thread::sleep(Duration::from_millis(20));
    }
    writer.join().expect("writing works");
    let ended = running.end();
    let (delivered, dropped) = counts(&ended);
    assert_eq!(delivered + dropped, 300_000);
    assert_eq!(report(&path("report")).len(), 300_000);
    assert!(peak_kib < 150 * 1024, "{peak_kib} KiB");
}

#[cfg(target_os = "linux")]
fn resident_kib(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0 kB");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
