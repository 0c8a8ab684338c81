//! `docs/configuration.md`, from the tables.

use super::knob::Knob;
use super::knobs::KNOBS;
use super::others::{Treatment, OTHERS};
use std::fmt::Write;

const HEAD: &str = "# Configuration

<!-- Made from the table in src/config/knobs.rs; a test holds this file to it, and STEADFAST_WRITE_DOCS=1 cargo test --test config writes it anew. -->

Every setting has a method on `Config` and a property name, Kafka's where Kafka has one:

```rust
let config = Config::new(\"kafka-1:9092,kafka-2:9092\").linger(Duration::from_millis(20)).acks(Acks::All);
let config = Config::from_properties([(\"bootstrap.servers\", \"kafka-1:9092\"), (\"linger.ms\", \"20\")])?;
let config = Config::from_properties_file(\"producer.properties\")?.set(\"acks\", \"all\")?;
```

- What is set last wins, by whichever name.
- An unknown name is an error that names the nearest known one; a value out of range is an error that names the range. Names of
  Java's producer without a use here are accepted or refused as the tables at the end say; `Config::notes` lists what was accepted
  without effect, and what was changed to fit.
- Times are in milliseconds, or microseconds where the name ends with `_us`; a fraction is allowed (`0.5`). Where no upper limit is given,
  everything above ten years counts as ten years.
- `None` in Rust is the word given below as a property, such as `none` or `-1`. 2147483647, as it is often written for `retries` and
  `delivery.timeout.ms`, is no limit.

## What depends on what

- `batch_retries_limit` and `delivery.timeout.ms`: whichever comes first ends a message's life, and the error names which. **Without a limit on both, a
  message waits for ever for a cluster that stays away**, and so does every caller once the buffer is full, for `max.block.ms`.
- `delivery.timeout.ms` must leave room for `linger.ms` and `request.timeout.ms`. If all were set and don't fit, that is an error; else the ones that were
  not set are fitted to those that were.
- `enable.idempotence=required` (or `true`) contradicts `acks` other than `all`, `retries=0`, and more than 5
  `max.in.flight.requests.per.connection`: an error. `preferred`, the default, is off with the first two, and holds to 5 requests
  for each partition with the third.
- A first wait above its maximum (`retry.backoff.ms`, `reconnect.backoff.ms`, `socket.connection.setup.timeout.ms`): an error if both were set, else the one
  that was not set is fitted.
- `batch.size` is at most `max.request.size`.
- `partitioner.rack.aware` needs `client.rack`.
- The brokers' own limit for the acknowledgements of the replicas, sent with each request, is `request.timeout.ms` less a fifth, at most 2 s less.

";

/// The whole document.
pub(super) fn markdown() -> String {
    let mut out = HEAD.to_owned();
    out.push_str("## All at a glance\n\n| property | `Config::` | default |\n|---|---|---|\n");
    for knob in KNOBS {
        let _ = writeln!(
            out,
            "| [`{}`](#{}) | `{}` | {} |",
            knob.property(),
            anchor(knob.property()),
            rust(knob),
            default(knob)
        );
    }
    let mut group = "";
    for knob in KNOBS {
        if knob.group != group {
            group = knob.group;
            let _ = write!(out, "\n## {group}\n");
        }
        section(&mut out, knob);
    }
    others(&mut out);
    out
}

fn section(out: &mut String, knob: &Knob) {
    let _ = write!(out, "\n### `{}`\n\n", knob.property());
    let _ = write!(out, "`Config::{}`", rust(knob));
    if knob.properties.len() > 1 {
        let names: Vec<_> = knob.properties[1..].iter().map(|name| format!("`{name}`")).collect();
        let _ = write!(out, ", also as property {}", names.join(", "));
    }
    let _ = write!(out, "\n· allowed: {}\n· default: {}\n\n", (knob.allowed)(), default(knob));
    let _ = write!(out, "{}\n\nWhy this default: {}\n", knob.meaning, knob.reason);
}

/// The setter without `impl Into`.
fn rust(knob: &Knob) -> String {
    match knob.rust.split_once("(impl Into<") {
        Some((name, ty)) => format!("{name}({}", ty.replacen(">)", ")", 1)),
        None => knob.rust.to_owned(),
    }
}

fn default(knob: &Knob) -> String {
    if knob.default.is_empty() {
        "none".to_owned()
    } else {
        format!("`{}`", knob.default)
    }
}

/// As GitHub makes them from headings.
fn anchor(property: &str) -> String {
    property.to_lowercase().chars().filter(|c| c.is_alphanumeric() || "-_".contains(*c)).collect()
}

fn others(out: &mut String) {
    let names = |names: &[&str]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    out.push_str("\n## Names without a use here\n\nA name with `*` stands for all that begin so.\n");
    out.push_str("\n### Accepted, without effect\n\nPeople have them in their files, and leaving them out does no harm.\n\n");
    out.push_str("| property | why |\n|---|---|\n");
    for other in OTHERS {
        if let Treatment::Ignored(why) = other.treatment {
            let _ = writeln!(out, "| {} | {why} |", names(other.names));
        }
    }
    out.push_str("\n### Accepted with the value that says what is done anyway\n\n| property | value | otherwise refused |\n|---|---|---|\n");
    for other in OTHERS {
        if let Treatment::Only(values, why) = other.treatment {
            let values: Vec<_> = values
                .iter()
                .map(|v| if v.is_empty() { "empty".to_owned() } else { format!("`{v}`") })
                .collect();
            let _ = writeln!(out, "| {} | {} | {why} |", names(other.names), values.join(", "));
        }
    }
    out.push_str("\n### Refused\n\n| property | why |\n|---|---|\n");
    for other in OTHERS {
        if let Treatment::Refused(why) = other.treatment {
            let _ = writeln!(out, "| {} | {why} |", names(other.names));
        }
    }
}
