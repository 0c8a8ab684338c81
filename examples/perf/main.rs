//! `perf`: how fast it is here, on the embedded cluster or on yours.
//!
//! The embedded cluster runs in a process of its own: the CPU and the memory that are printed are this producer's.
//! It shares the machine's cores with it all the same, so for records per second give it cores to spare.

mod cluster;
#[path = "../common/connect.rs"]
mod connect;
mod load;
mod usage;

use clap::Parser;
use cluster::ClusterProcess;
use connect::Connect;
use hdrhistogram::Histogram;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use load::Load;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use steadfast::Producer;

/// Measures a producer: records and bytes per second, latency, CPU per record.
#[derive(Debug, Parser)]
#[command(
    name = "perf",
    after_help = "Without --brokers (or bootstrap.servers in -X or --config) it starts an embedded cluster in a process of its own.\n\
                  MB are 10^6 bytes of values. A latency is from the call to the verdict; of at most 10,000 records, evenly spread, \
                  and noted in the order in which they were sent, so it is never too low. CPU is user + system time of this process.\n\n\
                  Exit status: 0 everything was delivered; 1 it was not; 2 used wrongly."
)]
struct Args {
    #[command(flatten)]
    connect: Connect,
    /// The topic to send to
    #[arg(long, default_value = "perf")]
    topic: String,
    /// How many records
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    records: u64,
    /// How many bytes a value has
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(0..=100_000_000))]
    size: u32,
    /// How many threads send
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
    /// Send so many records a second, all threads together; as fast as possible if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    throughput: Option<u64>,
    /// Each thread sends one record at a time and waits for it
    #[arg(long)]
    sync: bool,
    /// How many brokers the embedded cluster has
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    embedded_brokers: u32,
    /// How many partitions the topic has on the embedded cluster
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    embedded_partitions: u32,
    /// How long the cluster may take to show the topic and its leaders
    #[arg(long, value_name = "MS", default_value_t = 60_000)]
    ready_within_ms: u64,
    /// End with one line of JSON
    #[arg(long)]
    json: bool,
}

/// How long what has been sent may take; the settings (delivery.timeout.ms) usually end it before.
const FLUSH: Duration = Duration::from_secs(3600);

fn main() -> ExitCode {
    if let Some(code) = cluster::serve_if_asked() {
        return code;
    }
    let args = Args::parse();
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("warn")).init();
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("perf: {}", error.text);
            ExitCode::from(error.status)
        }
    }
}

struct Failure {
    status: u8,
    text: String,
}

fn failed(error: impl ToString) -> Failure {
    Failure { status: 1, text: error.to_string() }
}

fn misused(error: impl ToString) -> Failure {
    Failure { status: 2, text: error.to_string() }
}

/// Whether everything was delivered.
fn run(args: &Args) -> Result<bool, Failure> {
    // Settings are judged before a cluster is started for them.
    let own_cluster = !names_brokers(&args.connect);
    let mut flags = Vec::new();
    if own_cluster {
        flags.push(("--brokers", "bootstrap.servers", Some("127.0.0.1:1".to_owned())));
    }
    let _ = args.connect.config(&flags).map_err(misused)?;
    let mut cluster = None;
    if own_cluster {
        let started = ClusterProcess::start(args.embedded_brokers, &args.topic, args.embedded_partitions);
        let started = started.map_err(|e| failed(format!("the embedded cluster can't be started: {e}")))?;
        flags[0].2 = Some(started.bootstrap().to_owned());
        cluster = Some(started);
    }
    let config = args.connect.config(&flags).map_err(misused)?;
    let producer = Producer::new(config).map_err(failed)?;
    producer.wait_until_ready(&[&args.topic], Duration::from_millis(args.ready_within_ms)).map_err(failed)?;

    let load = Load::new(args.records, args.size as usize, args.threads, args.throughput);
    let bar = progress_bar(args.records);
    let before = usage::cpu();
    let started = Instant::now();
    let main = std::thread::current();
    let run = std::thread::scope(|scope| {
        let run = scope.spawn(|| {
            let latency = load.send_all(&producer, &args.topic, args.sync);
            let flushed = producer.flush(FLUSH);
            let run = (latency, flushed, started.elapsed(), usage::cpu());
            main.unpark();
            run
        });
        while !run.is_finished() {
            bar.set_position(load.sent.load(Ordering::Relaxed));
            std::thread::park_timeout(Duration::from_millis(100));
        }
        run.join()
    });
    let (latency, flushed, elapsed, after) = run.map_err(|_| failed("a sending thread died"))?;
    let cpu = after.zip(before).map(|(after, before)| after.saturating_sub(before));
    bar.finish_and_clear();

    let stats = producer.stats();
    let refused = load.refused.load(Ordering::Relaxed);
    let figures = Figures {
        records: args.records,
        size: args.size,
        dropped: args.records - stats.delivered.min(args.records),
        delivered: stats.delivered,
        seconds: elapsed.as_secs_f64(),
        cpu,
        latency,
        peak_rss: usage::peak_rss(),
    };
    figures.print(args.json, load.sampled_one_in(args.sync)).map_err(failed)?;
    if refused > 0 {
        eprintln!("perf: {refused} records were refused at the door: the buffer was full for longer than max.block.ms");
    }
    for (cause, count) in &stats.dropped_by_cause {
        eprintln!("perf: {count} records dropped: {cause}");
    }
    if let Err(error) = flushed {
        eprintln!("perf: {error}");
    }
    let clean = producer.stop(Duration::from_secs(5)).is_clean();
    drop(cluster);
    Ok(clean && figures.dropped == 0)
}

/// Whether somebody has said where the cluster is.
fn names_brokers(connect: &Connect) -> bool {
    let by_x =
        connect.properties.iter().any(|property| property.trim_start().starts_with("bootstrap.servers"));
    connect.brokers.is_some() || connect.config.is_some() || by_x
}

fn progress_bar(records: u64) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(records), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{elapsed} {wide_bar} {pos}/{len} {per_sec}");
    bar.with_style(style.expect("a constant template"))
}

/// What was measured.
struct Figures {
    records: u64,
    size: u32,
    delivered: u64,
    dropped: u64,
    seconds: f64,
    cpu: Option<Duration>,
    /// Microseconds.
    latency: Histogram<u64>,
    peak_rss: Option<u64>,
}

impl Figures {
    fn print(&self, json: bool, sampled_one_in: u64) -> io::Result<()> {
        let per_s = self.delivered as f64 / self.seconds;
        let mb_per_s = per_s * f64::from(self.size) / 1e6;
        let cpu_us = self.cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / self.records as f64);
        let [p50, p95, p99] = [0.5, 0.95, 0.99].map(|quantile| self.latency.value_at_quantile(quantile));
        let max = self.latency.max();
        let mut out = io::stdout().lock();
        if json {
            let line = serde_json::json!({
                "records_per_s": per_s.round(),
                "mb_per_s": (mb_per_s * 1e3).round() / 1e3,
                "cpu_us_per_record": cpu_us.map(|us| (us * 1e4).round() / 1e4),
                "p50_us": p50,
                "p95_us": p95,
                "p99_us": p99,
                "max_us": max,
                "peak_rss_bytes": self.peak_rss,
                "dropped": self.dropped,
            });
            writeln!(out, "{line}")?;
            return out.flush();
        }
        writeln!(
            out,
            "{} records delivered, {} dropped, in {:.2} s",
            self.delivered, self.dropped, self.seconds
        )?;
        writeln!(out, "{per_s:.0} records/s, {mb_per_s:.1} MB/s")?;
        let which =
            if sampled_one_in == 1 { String::new() } else { format!(" (1 record in {sampled_one_in})") };
        writeln!(out, "latency in us: p50 {p50}, p95 {p95}, p99 {p99}, max {max}{which}")?;
        if let Some(us) = cpu_us {
            writeln!(out, "CPU per record: {us:.3} us")?;
        }
        if let Some(bytes) = self.peak_rss {
            writeln!(out, "peak memory: {:.1} MiB", bytes as f64 / f64::from(1 << 20))?;
        }
        out.flush()
    }
}
