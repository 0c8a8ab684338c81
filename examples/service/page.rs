//! The same for people.

use std::fmt::Write;
use std::time::Duration;
use steadfast::{LatencySummary, Stats, Status};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}\
                     table{border-collapse:collapse;margin:.5rem 0 1.5rem}td,th{text-align:left;padding:.15rem 1rem .15rem 0;\
                     vertical-align:top}td.n{text-align:right;font-variant-numeric:tabular-nums}h2{font-size:1.1rem;margin:1rem 0 0}\
                     .bad{color:#a00}";

/// The page; it loads itself again every two seconds.
pub(crate) fn page(stats: &Stats, status: &Status) -> String {
    let mut out = format!(
        "<!doctype html><html lang=en><meta charset=utf-8><meta http-equiv=refresh content=2>\
         <title>service</title><style>{STYLE}</style><h1>service</h1>"
    );
    if let Some(closed) = &status.closed {
        _ = write!(out, "<p class=bad>The producer takes no more messages: {}.", escape(closed));
    }
    _ = write!(out, "<p>Idempotence: {}.", escape(&status.idempotence));
    out += "<h2>Messages</h2>";
    table(
        &mut out,
        &[
            ("accepted", stats.accepted.to_string()),
            ("delivered", stats.delivered.to_string()),
            ("dropped", stats.dropped.to_string()),
            ("retries of batches", stats.retries.to_string()),
            ("bytes in the buffer", stats.bytes_queued.to_string()),
            ("bytes on their way", stats.bytes_in_flight.to_string()),
            ("requests", stats.requests.to_string()),
        ],
    );
    counts(&mut out, "Dropped for", &stats.dropped_by_cause);
    counts(&mut out, "Retried for", &stats.retries_by_code);
    times(&mut out, stats);
    waiting(&mut out, status);
    connections(&mut out, status);
    out
}

fn table(out: &mut String, rows: &[(&str, String)]) {
    out.push_str("<table>");
    for (name, value) in rows {
        _ = write!(out, "<tr><td>{}<td class=n>{}", escape(name), escape(value));
    }
    out.push_str("</table>");
}

fn counts(out: &mut String, title: &str, counts: &[(String, u64)]) {
    if !counts.is_empty() {
        _ = write!(out, "<h2>{title}</h2>");
        let rows: Vec<(&str, String)> =
            counts.iter().map(|(name, n)| (name.as_str(), n.to_string())).collect();
        table(out, &rows);
    }
}

fn times(out: &mut String, stats: &Stats) {
    out.push_str("<h2>Times of batches</h2><table><tr><th><th>half within<th>95 %<th>99 %<th>longest");
    let rows: [(&str, &LatencySummary); 3] =
        [("queued", &stats.queued), ("of which lingering", &stats.lingered), ("in flight", &stats.in_flight)];
    for (name, times) in rows {
        let [p50, p95, p99, max] = [times.p50, times.p95, times.p99, times.max].map(ms);
        _ = write!(out, "<tr><td>{name}<td class=n>{p50}<td class=n>{p95}<td class=n>{p99}<td class=n>{max}");
    }
    out.push_str("</table>");
}

fn waiting(out: &mut String, status: &Status) {
    out.push_str("<h2>Waiting</h2>");
    if status.waiting.is_empty() {
        out.push_str("<p>Nothing waits.");
        return;
    }
    out.push_str("<table><tr><th>partition<th>messages<th>bytes<th>for<th>because");
    for p in &status.waiting {
        let partition = p.partition.map_or_else(String::new, |number| format!(" {number}"));
        let (topic, reason) = (escape(&p.topic), escape(&p.reason));
        let (messages, bytes, since) = (p.messages, p.bytes, ms(p.since));
        _ = write!(
            out,
            "<tr><td>{topic}{partition}<td class=n>{messages}<td class=n>{bytes}<td class=n>{since}<td>{reason}"
        );
    }
    out.push_str("</table>");
}

fn connections(out: &mut String, status: &Status) {
    out.push_str(
        "<h2>Connections</h2><table><tr><th>broker<th>address<th>state<th>requests on their way<th>last error",
    );
    for c in &status.connections {
        let broker = c.broker.map_or_else(|| "?".to_owned(), |id| id.to_string());
        let throttled =
            c.throttled_for.map_or_else(String::new, |pause| format!(", throttled for {}", ms(pause)));
        let error = c.last_error.as_deref().unwrap_or_default();
        let (address, state, error) = (escape(&c.address), escape(&c.state), escape(error));
        let in_flight = c.in_flight;
        _ = write!(
            out,
            "<tr><td>{broker}<td>{address}<td>{state}{throttled}<td class=n>{in_flight}<td>{error}"
        );
    }
    out.push_str("</table>");
}

fn ms(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1e3)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
