//! `service`: how the crate is meant to be embedded in a blocking, threaded service.
//!
//!     curl -d 'hello' http://127.0.0.1:8080/topics/orders                 # waits: {"topic":"orders","partition":2,"offset":17}
//!     curl -d 'hello' 'http://127.0.0.1:8080/topics/orders?wait=no'       # at once: {"accepted":true}
//!     curl http://127.0.0.1:8080/                                         # a page for people
//!     curl http://127.0.0.1:8080/metrics                                  # and one for Prometheus
//!
//! One thread takes requests and answers those about the service itself, so that it can be looked at however busy it is; the
//! others send bodies and wait for verdicts. On SIGTERM (or Ctrl-C) it takes no more, sends what it has, answers, and ends within
//! its deadline: with status 0 if everything that was accepted is delivered.

#[path = "../common/connect.rs"]
mod connect;
mod handle;
mod metrics;
mod page;

use clap::Parser;
use connect::Connect;
use crossbeam_channel::{Receiver, Sender, TryRecvError, TrySendError};
use handle::{answer_json, Handler};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};
use steadfast::{Producer, StopReport};
use tiny_http::{Method, Request, Server};

/// A small HTTP service that sends each posted body to Kafka.
#[derive(Debug, Parser)]
#[command(name = "service")]
struct Args {
    #[command(flatten)]
    connect: Connect,
    /// Where to listen; with port 0 the system chooses one, and it is printed
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8080")]
    listen: String,
    /// How many threads send and wait
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    /// How long an answer waits for the verdict; after that it says that there is none yet
    #[arg(long, value_name = "MS", default_value_t = 5_000)]
    answer_within_ms: u64,
    /// How long the end may take
    #[arg(long, value_name = "MS", default_value_t = 10_000)]
    stop_within_ms: u64,
}

/// Requests that wait for a thread; more are refused with 503.
const WAITING_MAX: usize = 1024;
/// How often the signal is looked for.
const TICK: Duration = Duration::from_millis(100);

fn main() -> ExitCode {
    let args = Args::parse();
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("warn")).init();
    let config = match args.connect.config(&[]) {
        Ok(config) => config,
        Err(error) => {
            eprintln!("service: {error}");
            return ExitCode::from(2);
        }
    };
    // Whoever asked for an answer at once does not hear of a drop: the log does. (A real service would keep the messages.)
    let producer = Producer::builder(config).on_delivery(|run| {
        if let Some(error) = run.error() {
            log::error!("{} messages dropped: {error}", run.len());
        }
    });
    let producer = match producer.start() {
        Ok(producer) => producer,
        Err(error) => {
            eprintln!("service: {error}");
            return ExitCode::FAILURE;
        }
    };
    match serve(&args, &producer) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("service: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Until a signal; then whether nothing was left.
fn serve(args: &Args, producer: &Producer) -> Result<bool, Box<dyn std::error::Error + Send + Sync>> {
    let terminate = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, terminate.clone())?;
    }
    let server = Server::http(&args.listen)?;
    writeln!(io::stdout(), "listening on http://{}", server.server_addr())?;
    io::stdout().flush()?;

    let handler = Handler::new(producer.clone(), Duration::from_millis(args.answer_within_ms));
    let (jobs, waiting) = crossbeam_channel::bounded(WAITING_MAX);
    // Nothing is ever sent here: it ends when the last thread has dropped its end.
    let (alive, ended) = crossbeam_channel::bounded::<()>(0);
    for _ in 0..args.threads {
        let (handler, waiting, alive) = (handler.clone(), waiting.clone(), alive.clone());
        std::thread::spawn(move || work(&handler, &waiting, alive));
    }
    drop((waiting, alive));
    while !terminate.load(Ordering::Relaxed) {
        if let Some(request) = server.recv_timeout(TICK)? {
            dispatch(producer, &handler, &jobs, request);
        }
    }
    let (report, answered) = stop(args, producer, &server, &handler, jobs, &ended);
    let stats = producer.stats();
    eprintln!(
        "stopped: accepted={} delivered={} dropped={} left={}",
        stats.accepted, stats.delivered, stats.dropped, report.left_count
    );
    // A real service would write `report.left` to a file here, to send it again when it comes back.
    Ok(report.is_clean() && answered)
}

/// Takes no more, sends what there is, answers what waits. Also returns whether all answers were written in time.
fn stop(
    args: &Args,
    producer: &Producer,
    server: &Server,
    handler: &Handler,
    jobs: Sender<Request>,
    ended: &Receiver<()>,
) -> (StopReport, bool) {
    let within = Duration::from_millis(args.stop_within_ms);
    let deadline = Instant::now() + within;
    // The threads end when they have answered what is queued. From here on the producer refuses, and so do they; what they
    // wait for gets its verdict in `stop`. The last tenth of the time is for writing answers.
    drop(jobs);
    std::thread::scope(|scope| {
        let stopping = scope.spawn(|| producer.stop(within.mul_f64(0.9)));
        let refuse_more = || {
            match server.recv_timeout(TICK / 10) {
                Ok(Some(request)) => handler.refuse(request, "the service stops"),
                Ok(None) => {}
                Err(_) => std::thread::sleep(TICK / 10), // it takes no more anyway
            }
        };
        while !stopping.is_finished() {
            refuse_more();
        }
        // A thread that writes to a client which doesn't read is not waited for any longer than this.
        let all_ended = || matches!(ended.try_recv(), Err(TryRecvError::Disconnected));
        while !all_ended() && Instant::now() < deadline {
            refuse_more();
        }
        (stopping.join().expect("stopping does not panic"), all_ended())
    })
}

fn dispatch(producer: &Producer, handler: &Handler, jobs: &Sender<Request>, request: Request) {
    let path = request.url().split('?').next().unwrap_or_default().to_owned();
    match (request.method(), path.as_str()) {
        (Method::Get, "/") => {
            let page = page::page(&producer.stats(), &producer.status());
            handle::answer(request, 200, "text/html; charset=utf-8", page);
        }
        (Method::Get, "/metrics") => {
            let metrics = metrics::metrics(&producer.stats(), &producer.status(), &handler.answers());
            handle::answer(request, 200, "text/plain; version=0.0.4; charset=utf-8", metrics);
        }
        (Method::Post, path) if path.starts_with("/topics/") => match jobs.try_send(request) {
            Ok(()) => {}
            Err(TrySendError::Full(request) | TrySendError::Disconnected(request)) => {
                handler.refuse(request, "all threads are busy");
            }
        },
        _ => answer_json(
            request,
            404,
            &serde_json::json!({ "error": "POST /topics/NAME, GET /, GET /metrics" }),
        ),
    }
}

fn work(handler: &Handler, waiting: &Receiver<Request>, alive: Sender<()>) {
    for request in waiting {
        handler.handle(request);
    }
    drop(alive);
}
