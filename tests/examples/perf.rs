use crate::support::{example, run, Ended};
use serde_json::Value;
use steadfast::testing::Cluster;

fn perf(args: &[&str]) -> Ended {
    let mut command = example("perf");
    command.args(args);
    run(command, b"")
}

fn figure(json: &Value, key: &str) -> f64 {
    json[key].as_f64().unwrap_or_else(|| panic!("no number {key} in {json}"))
}

fn check(json: &Value) {
    for key in ["records_per_s", "mb_per_s", "p50_us", "p95_us", "p99_us", "max_us"] {
        assert!(figure(json, key) > 0.0, "{key} in {json}");
    }
    if cfg!(unix) {
        assert!(figure(json, "cpu_us_per_record") > 0.0, "{json}");
    }
    if cfg!(target_os = "linux") {
        assert!(figure(json, "peak_rss_bytes") > 1e6, "{json}");
    }
    assert!(figure(json, "p50_us") <= figure(json, "p95_us"), "{json}");
    assert!(figure(json, "p99_us") <= figure(json, "max_us"), "{json}");
    assert_eq!(json["dropped"], 0, "{json}");
}

#[test]
fn measures_on_a_cluster_of_its_own() {
    let ended = perf(&["--topic", "t", "--records", "20000", "--size", "100", "--threads", "2", "--json"]);
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    let json = ended.json();
    check(&json);
    let bytes_per_record = figure(&json, "mb_per_s") * 1e6 / figure(&json, "records_per_s");
    assert!((bytes_per_record - 100.0).abs() < 5.0, "{json}");
}

#[test]
fn measures_on_a_cluster_that_is_there() {
    let cluster = Cluster::builder().brokers(2).topic(("t", 3)).start().expect("ports");
    let brokers = cluster.bootstrap();
    let ended = perf(&[
        "--brokers",
        &brokers,
        "--topic",
        "t",
        "--records",
        "50",
        "--size",
        "10",
        "--sync",
        "--json",
        "-X",
        "linger.ms=0",
    ]);
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    check(&ended.json());
    let messages = cluster.messages("t");
    assert_eq!(messages.len(), 50);
    assert!(messages.iter().all(|message| message.value.as_ref().is_some_and(|value| value.len() == 10)));
}

#[test]
fn keeps_to_the_pace_that_is_asked_for() {
    let ended = perf(&["--topic", "t", "--records", "500", "--size", "1", "--throughput", "1000", "--json"]);
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    let per_s = figure(&ended.json(), "records_per_s");
    assert!(per_s <= 1100.0, "{per_s} a second instead of 1000");
}

#[test]
fn says_what_is_wrong() {
    let misused = perf(&["--topic", "t", "--records", "1", "--size", "1", "-X", "no.such.property=1"]);
    assert_eq!(misused.code(), Some(2), "{misused:?}");
    assert!(misused.stderr.contains("no.such.property"), "{misused:?}");
    let misused = perf(&["--topic", "t", "--records", "0", "--size", "1"]);
    assert_eq!(misused.code(), Some(2), "{misused:?}");

    let cluster = Cluster::builder().brokers(1).topic("t").start().expect("ports");
    let brokers = cluster.bootstrap();
    drop(cluster);
    let args = [
        "--brokers",
        &brokers,
        "--topic",
        "t",
        "--records",
        "1",
        "--size",
        "1",
        "-X",
        "delivery.timeout.ms=500",
    ];
    let mut command = example("perf");
    command
        .args(args)
        .args(["-X", "linger.ms=0", "-X", "request.timeout.ms=400"])
        .args(["--ready-within-ms", "500"]);
    let away = run(command, b"");
    assert_eq!(away.code(), Some(1), "{away:?}");
    assert!(away.stderr.contains("not ready"), "{away:?}");
}
