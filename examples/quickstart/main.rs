//! `quickstart`: see it work, in one command and without a Kafka.
//!
//! Three embedded brokers; four threads send a million messages to three topics while leaders move, a broker crashes and
//! comes back, another hangs, and responses get lost. Then the brokers' logs are read back and compared with what was sent
//! and with what the receipts say.

mod check;
mod faults;
mod gate;
mod send;

use check::Findings;
use clap::Parser;
use gate::Gate;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::error::Error;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use steadfast::testing::Cluster;
use steadfast::{Config, Producer};

/// Sends a million messages through everything that can go wrong, and shows that all arrive, in order and once.
#[derive(Debug, Parser)]
#[command(name = "quickstart")]
struct Args {
    /// How many messages
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(10_000..))]
    messages: u64,
}

/// Topics and their partitions.
const TOPICS: [(&str, i32); 3] = [("orders", 6), ("clicks", 8), ("audit", 1)];
const THREADS: usize = 4;

fn main() -> ExitCode {
    let args = Args::parse();
    // The producer's log lines would be in the way of the story: RUST_LOG=info shows them.
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("error")).init();
    match run(args.messages) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("quickstart: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all is well.
fn run(messages: u64) -> Result<bool, Box<dyn Error>> {
    let mut builder = Cluster::builder().brokers(3);
    for topic in TOPICS {
        builder = builder.topic(topic);
    }
    let cluster = builder.start()?;
    println!("three brokers listen: {}", cluster.bootstrap());

    // All defaults but one: a hung broker is noticed after 1 s instead of 30, so that nobody has to wait for it here.
    let config = Config::new(cluster.bootstrap()).request_timeout(Duration::from_secs(1));
    let producer = Producer::new(config)?;
    let started = Instant::now();
    let bar = progress_bar(messages);
    let gate = Gate::new();
    let sent = std::thread::scope(|scope| {
        let per_thread = messages / THREADS as u64;
        let senders: Vec<_> = (0..THREADS)
            .map(|thread| {
                let extra = if thread == 0 { messages % THREADS as u64 } else { 0 };
                let (producer, gate) = (producer.clone(), &gate);
                scope.spawn(move || send::send_all(&producer, thread, per_thread + extra, gate))
            })
            .collect();
        let story = scope.spawn(|| faults::cause(&cluster, &gate, messages, &bar));
        while !senders.iter().all(|sender| sender.is_finished()) {
            bar.set_position(producer.stats().delivered);
            std::thread::sleep(Duration::from_millis(50)); // for the bar only
        }
        let sent: Vec<_> =
            senders.into_iter().map(|sender| sender.join().expect("a sender does not panic")).collect();
        story.join().expect("the faults are ordered for brokers that are there");
        sent
    });
    let report = producer.stop(Duration::from_secs(60));
    bar.finish_and_clear();
    let stats = producer.stats();
    println!("sent and acknowledged in {:.1} s; reading the log back", started.elapsed().as_secs_f64());

    let mut findings = Findings::default();
    if !report.is_clean() {
        findings.wrong(format!("{} messages were left when it stopped", report.left_count));
    }
    for violation in cluster.violations() {
        findings.wrong(format!("against the protocol: {violation}"));
    }
    check::compare(&cluster, &sent, &mut findings);
    if stats.retries == 0 {
        findings.wrong("nothing was retried: the faults did not reach it".to_owned());
    }
    tell(&stats);
    for wrong in &findings.wrong {
        eprintln!("quickstart: {wrong}");
    }
    let Findings { delivered, lost, duplicated, reordered, .. } = findings;
    println!(
        "delivered={delivered} lost={lost} duplicated={duplicated} reordered={reordered} retries={}",
        stats.retries
    );
    Ok(findings.wrong.is_empty() && delivered == messages && lost + duplicated + reordered == 0)
}

/// What it took.
fn tell(stats: &steadfast::Stats) {
    println!("{} requests with {} batches; retried:", stats.requests, stats.batches);
    for (code, count) in &stats.retries_by_code {
        println!("  {count:4} x {code}");
    }
}

fn progress_bar(messages: u64) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(messages), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{elapsed} {wide_bar} {pos}/{len} delivered");
    bar.with_style(style.expect("a constant template"))
}
