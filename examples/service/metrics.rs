//! Statistics in Prometheus' text format.

use std::fmt::Write;
use std::time::Duration;
use steadfast::{LatencySummary, Stats, Status};

/// The text.
pub(crate) fn metrics(stats: &Stats, status: &Status, answers: &[(&str, u64)]) -> String {
    let mut out = Text(String::new());
    out.counter("messages_accepted", "Messages taken from callers.", stats.accepted);
    out.counter("messages_delivered", "Messages delivered.", stats.delivered);
    out.counter("messages_dropped", "Messages dropped.", stats.dropped);
    let dropped = stats.dropped_by_cause.iter().map(|(cause, count)| (cause.as_str(), *count));
    out.counters("messages_dropped_by_cause", "Messages dropped.", "cause", dropped);
    let retries = stats.retries_by_code.iter().map(|(code, count)| (code.as_str(), *count));
    out.counters("batch_retries", "Attempts of a batch that were made again.", "code", retries);
    out.counter("batches", "Batches sent, each attempt counted.", stats.batches);
    out.counter("batch_splits", "Batches that were cut for being too large.", stats.splits);
    out.counter("requests", "Produce requests sent.", stats.requests);
    out.counter("request_bytes", "Bytes of produce requests.", stats.request_bytes);
    out.counter("epoch_bumps", "How often the producer epoch was raised.", stats.epoch_bumps);
    out.gauge("buffer_bytes", "Bytes of the buffer in use.", stats.bytes_queued as f64);
    out.gauge("in_flight_bytes", "Bytes in requests on their way.", stats.bytes_in_flight as f64);
    out.summary("queued_seconds", "From acceptance to the first request.", &stats.queued);
    out.summary("lingered_seconds", "In a batch that was not yet due.", &stats.lingered);
    out.summary("in_flight_seconds", "From the first request to the verdict.", &stats.in_flight);
    out.counters("http_answers", "HTTP answers of this service.", "status", answers.iter().copied());

    out.family("broker_connected", "gauge", "Whether a connection is open.");
    for broker in &status.connections {
        let connected = u64::from(broker.state == "connected");
        out.sample("broker_connected", &[("address", &broker.address)], connected as f64);
    }
    out.family("broker_throttled_seconds", "gauge", "How long a broker's pause still lasts.");
    for broker in &status.connections {
        let seconds = broker.throttled_for.unwrap_or(Duration::ZERO).as_secs_f64();
        out.sample("broker_throttled_seconds", &[("address", &broker.address)], seconds);
    }
    let waiting: u64 = status.waiting.iter().map(|partition| partition.messages).sum();
    out.gauge("messages_waiting", "Messages that can't be sent now.", waiting as f64);
    out.gauge("partitions_waiting", "Partitions that can't be sent to now.", status.waiting.len() as f64);
    out.0
}

struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        _ = write!(self.0, "# HELP steadfast_{name} {help}\n# TYPE steadfast_{name} {kind}\n");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        _ = write!(self.0, "steadfast_{name}");
        for (at, (label, text)) in labels.iter().enumerate() {
            let before = if at == 0 { '{' } else { ',' };
            _ = write!(self.0, "{before}{label}=\"{}\"", escape(text));
        }
        let after = if labels.is_empty() { "" } else { "}" };
        _ = writeln!(self.0, "{after} {value}");
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        let name = format!("{name}_total");
        self.family(&name, "counter", help);
        self.sample(&name, &[], value as f64);
    }

    fn counters<'a>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: impl Iterator<Item = (&'a str, u64)>,
    ) {
        let name = format!("{name}_total");
        self.family(&name, "counter", help);
        for (text, value) in values {
            self.sample(&name, &[(label, text)], value as f64);
        }
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.family(name, "gauge", help);
        self.sample(name, &[], value);
    }

    fn summary(&mut self, name: &str, help: &str, latency: &LatencySummary) {
        self.family(name, "summary", help);
        for (quantile, value) in [("0.5", latency.p50), ("0.95", latency.p95), ("0.99", latency.p99)] {
            self.sample(name, &[("quantile", quantile)], value.as_secs_f64());
        }
        self.sample(&format!("{name}_sum"), &[], latency.mean.as_secs_f64() * latency.count as f64);
        self.sample(&format!("{name}_count"), &[], latency.count as f64);
    }
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
