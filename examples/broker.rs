//! The embedded cluster alone, for other clients to produce to:
//!
//! ```text
//! cargo run --release --example broker -- --ports 9092 --auto-create 3
//! ```
//!
//! It serves what a producer needs and nothing else: nothing can be consumed from it. It ends on Ctrl-C or SIGTERM, or with
//! `--until` when so many messages are there, and then tells what came.

use clap::Parser;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;
use steadfast::testing::{Cluster, LoggedMessage, TopicSpec};

#[derive(Parser)]
struct Options {
    /// One broker for each port.
    #[arg(long, value_delimiter = ',', default_value = "9092")]
    ports: Vec<u16>,
    /// A topic to make: NAME or NAME:PARTITIONS. May be given more than once.
    #[arg(long)]
    topic: Vec<String>,
    /// Topics that clients ask for come into being with so many partitions.
    #[arg(long, value_name = "PARTITIONS")]
    auto_create: Option<i32>,
    /// Keep no messages, only count them.
    #[arg(long)]
    discard: bool,
    /// Print every message at the end, topic by topic.
    #[arg(long, conflicts_with = "discard")]
    print: bool,
    /// End when so many messages have come.
    #[arg(long, value_name = "MESSAGES")]
    until: Option<u64>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    env_logger::init();
    let options = Options::parse();
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    let mut builder =
        Cluster::builder().ports(&options.ports).keep_log(!options.discard).check_records(!options.discard);
    if let Some(partitions) = options.auto_create {
        builder = builder.auto_create(TopicSpec::new("any").partitions(partitions));
    }
    for topic in &options.topic {
        let (name, partitions) = topic.rsplit_once(':').unwrap_or((topic, "1"));
        builder = builder.topic((name, partitions.parse()?));
    }
    let cluster = builder.start()?;
    println!("bootstrap.servers={}", cluster.bootstrap());
    while !stop.load(Ordering::Relaxed) && options.until.is_none_or(|until| cluster.appended() < until) {
        std::thread::sleep(Duration::from_millis(50));
    }
    if options.print {
        cluster.topics().iter().flat_map(|topic| cluster.messages(topic)).for_each(|message| print(&message));
    }
    let requests = cluster.requests();
    println!(
        "messages={} produce_requests={} connections={}",
        cluster.appended(),
        requests.produce,
        requests.connections
    );
    let violations = cluster.violations();
    violations.iter().for_each(|violation| eprintln!("violation: {violation}"));
    if !violations.is_empty() {
        return Err("a producer broke the protocol".into());
    }
    Ok(())
}

fn print(message: &LoggedMessage) {
    let text = |bytes: &Option<Vec<u8>>| match bytes {
        Some(bytes) => format!("\"{}\"", bytes.escape_ascii()),
        None => "null".to_owned(),
    };
    println!(
        "{}-{} offset={} timestamp={} producer={} epoch={} sequence={} key={} value={} headers={}",
        message.topic,
        message.partition,
        message.offset,
        message.timestamp,
        message.producer_id,
        message.producer_epoch,
        message.sequence,
        text(&message.key),
        text(&message.value),
        message
            .headers
            .iter()
            .map(|(name, value)| format!("{name}:{}", text(value)))
            .collect::<Vec<_>>()
            .join(",")
    );
}
