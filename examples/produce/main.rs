//! `produce`: lines of standard input to a Kafka topic, as people use kcat or the console producer.
//!
//! Three threads: one reads and sends, one waits for verdicts in the order of the lines (`settle`), and the main one
//! watches for the end of input and for Ctrl-C.

mod args;
#[path = "../common/connect.rs"]
mod connect;
mod input;
mod reader;
mod settle;
mod tally;

use args::Args;
use clap::Parser;
use crossbeam_channel::{Receiver, RecvTimeoutError};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use reader::Reader;
use settle::{settle_all, Report};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};
use steadfast::{Config, Producer, StartError};
use tally::Tally;

/// How often the main thread looks at everything.
const TICK: Duration = Duration::from_millis(100);
/// What Ctrl-C gives the lines that have been read.
const STOP_INTERRUPTED: Duration = Duration::from_secs(3);
/// What the end gives them after the flush, which took as long as the settings allow.
const STOP_FLUSHED: Duration = Duration::from_secs(1);
/// Lines between the reader and the thread that waits for verdicts.
const HANDED_OVER: usize = 1 << 16;

/// Everything is set up, and nothing has been sent.
struct Job {
    producer: Producer,
    reader: Reader,
    report: Report,
    json: bool,
    flush_within: Option<Duration>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    log_to_a_terminal();
    match set_up(&args) {
        Ok(job) => run(job),
        Err(error) => {
            eprintln!("produce: {}", error.text);
            ExitCode::from(error.status)
        }
    }
}

/// The producer's own log lines help a person who watches; a script gets the causes of drops at the end, and what
/// RUST_LOG asks for.
fn log_to_a_terminal() {
    let level = if io::stderr().is_terminal() { "warn" } else { "error" };
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or(level)).init();
}

struct SetUpError {
    status: u8,
    text: String,
}

/// Used wrongly.
impl From<String> for SetUpError {
    fn from(text: String) -> SetUpError {
        SetUpError { status: 2, text }
    }
}

fn set_up(args: &Args) -> Result<Job, SetUpError> {
    let config = args.config()?;
    let longest_line =
        config.get("buffer.memory").and_then(|bytes| bytes.parse().ok()).unwrap_or(u64::MAX - 1);
    let flush_within = flush_within(&config);
    let separators = args.separators()?;
    let headers = args.headers()?;
    let report = match &args.report {
        Some(path) => Some(File::create(path).map_err(|e| format!("--report {}: {e}", path.display()))?),
        None => None,
    };
    let producer = Producer::new(config).map_err(|error| match error {
        StartError::Config(error) => SetUpError::from(error.to_string()),
        error => SetUpError { status: 1, text: error.to_string() },
    })?;
    // A call without messages sends nothing, and refuses what is not a topic's name.
    let nothing: [&[u8]; 0] = [];
    drop(producer.send_messages(&args.topic, nothing).map_err(|e| format!("--topic {}: {e}", args.topic))?);
    let reader = Reader {
        producer: producer.clone(),
        topic: args.topic.clone(),
        separators,
        headers,
        partition: args.partition,
        longest_line,
    };
    Ok(Job { producer, reader, report: Report::new(report), json: args.json, flush_within })
}

/// Within `delivery.timeout.ms` everything has its verdict. (It is raised to linger and one request where they take longer.)
/// None: without that limit the last line may take for ever, as was asked for.
fn flush_within(config: &Config) -> Option<Duration> {
    let ms = |property| config.get(property)?.parse().ok().map(Duration::from_millis);
    let delivery = ms("delivery.timeout.ms")?;
    let request = ms("linger.ms").unwrap_or_default() + ms("request.timeout.ms").unwrap_or_default();
    Some(delivery.max(request) + Duration::from_secs(1))
}

/// How it all ended.
struct End {
    /// Lines read.
    sent: u64,
    tally: Tally,
    /// What reading came to; None: somebody interrupted it.
    read: Option<io::Result<()>>,
    /// Whether the report could be written.
    written: io::Result<()>,
    /// Lines without a verdict when it was stopped.
    left: u64,
    retries: u64,
    elapsed: Duration,
}

fn run(job: Job) -> ExitCode {
    let json = job.json;
    match send_all(job) {
        Ok(end) => tell(end, json),
        Err(error) => {
            eprintln!("produce: {error}");
            ExitCode::FAILURE
        }
    }
}

fn send_all(job: Job) -> io::Result<End> {
    let Job { producer, reader, report, flush_within, .. } = job;
    let started = Instant::now();
    let interrupted = on_signals()?;
    let (entries, lines) = crossbeam_channel::bounded(HANDED_OVER);
    let settler = std::thread::spawn(move || settle_all(&lines, report));
    let door = reader::Door::new(entries);
    let (ended, end) = crossbeam_channel::bounded(1);
    let reading = {
        let door = door.clone();
        std::thread::spawn(move || _ = ended.send(reader.read_all(&mut io::stdin().lock(), &door)))
    };

    let progress = Progress::new();
    let read = watch(&producer, &end, &interrupted, &progress);
    if read.is_some() {
        flush(&producer, flush_within, &interrupted, &progress);
        // It has said that it is done, so this ends; a panic in it has been printed.
        _ = reading.join();
    }
    let patience = if interrupted.load(Ordering::Relaxed) { STOP_INTERRUPTED } else { STOP_FLUSHED };
    let stopped = producer.stop(patience);
    // Whoever still reads finds the door closed: what it reads from now on does not count. It may sit in `read` for ever,
    // so nobody waits for it.
    let sent = door.close();
    let settled = settler.join();
    progress.finish();
    let (tally, written) =
        settled.map_err(|_| io::Error::other("the thread that waits for verdicts has died"))?;
    let (retries, elapsed) = (producer.stats().retries, started.elapsed());
    Ok(End { sent, tally, read, written, left: stopped.left_count, retries, elapsed })
}

/// Says what there is to say, and whether all went well.
fn tell(mut end: End, json: bool) -> ExitCode {
    let mut well = end.tally.dropped == 0 && end.sent == end.tally.delivered;
    let mut complain = |text: String| {
        eprintln!("produce: {text}");
        well = false;
    };
    for cause in end.tally.causes() {
        complain(cause);
    }
    if end.left > 0 {
        complain(format!(
            "{} lines had no verdict when it was stopped; they are among the dropped",
            end.left
        ));
    }
    if let Some(Err(error)) = end.read {
        complain(format!("standard input can't be read further: {error}"));
    }
    if let Err(error) = end.written {
        complain(format!("--report is not complete: {error}"));
    }
    let (seconds, Tally { delivered, dropped, .. }) = (end.elapsed.as_secs_f64(), end.tally);
    if json {
        let summary = serde_json::json!({
            "sent": end.sent,
            "delivered": delivered,
            "dropped": dropped,
            "retries": end.retries,
            "seconds": (seconds * 1e3).round() / 1e3,
        });
        if let Err(error) = writeln!(io::stdout(), "{summary}").and_then(|()| io::stdout().flush()) {
            complain(format!("standard output: {error}"));
        }
    } else if io::stderr().is_terminal() {
        eprintln!("{delivered} delivered, {dropped} dropped, in {seconds:.1} s");
    }
    if well {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Set by the first Ctrl-C (or SIGTERM); the second one ends the process at once.
fn on_signals() -> io::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 1, interrupted.clone())?;
        signal_hook::flag::register(signal, interrupted.clone())?;
    }
    Ok(interrupted)
}

/// Until the input ends (how it did), or somebody interrupts (None).
fn watch(
    producer: &Producer,
    end: &Receiver<io::Result<()>>,
    interrupted: &AtomicBool,
    progress: &Progress,
) -> Option<io::Result<()>> {
    loop {
        match end.recv_timeout(TICK) {
            Ok(result) => return Some(result),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Some(Err(io::Error::other("the thread that reads it has died")))
            }
        }
        if interrupted.load(Ordering::Relaxed) {
            return None;
        }
        progress.show(producer);
    }
}

/// Until everything has its verdict, the time is over, or somebody interrupts.
fn flush(producer: &Producer, timeout: Option<Duration>, interrupted: &AtomicBool, progress: &Progress) {
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    while producer.flush(TICK).is_err() {
        let late = deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if late || interrupted.load(Ordering::Relaxed) {
            return;
        }
        progress.show(producer);
    }
}

/// One line on a terminal, nothing on a pipe.
struct Progress(Option<ProgressBar>);

impl Progress {
    fn new() -> Progress {
        if !io::stderr().is_terminal() {
            return Progress(None);
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        bar.set_style(
            ProgressStyle::with_template("{spinner} {elapsed} {msg}").expect("a constant template"),
        );
        Progress(Some(bar))
    }

    fn show(&self, producer: &Producer) {
        let Some(bar) = &self.0 else { return };
        let stats = producer.stats();
        let mut text = format!("{} delivered", stats.delivered);
        if stats.dropped > 0 {
            text += &format!(", {} dropped", stats.dropped);
        }
        if stats.retries > 0 {
            text += &format!(", {} retries", stats.retries);
        }
        if let Some(waiting) = producer.status().waiting.first() {
            text += &format!("; waiting: {}", waiting.reason);
        }
        bar.set_message(text);
        bar.tick();
    }

    fn finish(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
