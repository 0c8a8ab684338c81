use crate::support::{example, signal, start, until, Running, SOON};
use nix::sys::signal::Signal;
use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use steadfast::testing::{Cluster, Fault, On, Times};

/// Status and body of an answer; None if the connection ended without one.
fn http(address: &str, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(SOON)).expect("a timeout");
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = BufReader::new(stream);
    let mut line = String::new();
    answer.read_line(&mut line).ok()?;
    let status = line.split(' ').nth(1)?.parse().ok()?;
    let mut rest = String::new();
    answer.read_to_string(&mut rest).ok()?;
    let (_, body) = rest.split_once("\r\n\r\n")?;
    Some((status, body.to_owned()))
}

/// The service, listening.
fn service(cluster: &Cluster, args: &[&str]) -> (Running, String) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    drop(listener);
    let mut command = example("service");
    command.args(["--brokers", &cluster.bootstrap(), "--listen", &address]).args(args);
    let running = start(command);
    until("the service listens", || TcpStream::connect(&address).is_ok());
    (running, address)
}

#[test]
fn a_posted_body_is_a_message_and_the_pages_tell_of_it() {
    let cluster = Cluster::builder().brokers(2).topic(("t", 2)).start().expect("ports");
    let (running, address) = service(&cluster, &[]);
    let (status, body) = http(&address, "POST", "/topics/t", "hello").expect("an answer");
    assert_eq!(status, 200, "{body}");
    let answer: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    let messages = cluster.messages("t");
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0].value.as_deref(), Some(&b"hello"[..]));
    assert_eq!(
        (&answer["topic"], &answer["partition"]),
        (&"t".into(), &messages[0].partition.into()),
        "{body}"
    );
    assert_eq!(answer["offset"], messages[0].offset, "{body}");

    let (status, _) = http(&address, "POST", "/topics/t?wait=no", "at once").expect("an answer");
    assert_eq!(status, 202);
    until("it is in the log", || cluster.appended() == 2);
    let (status, body) = http(&address, "POST", "/topics/not%20a%20topic", "x").expect("an answer");
    assert_eq!(status, 400, "{body}");
    assert_eq!(http(&address, "GET", "/nothing", "").expect("an answer").0, 404);

    let (status, page) = http(&address, "GET", "/", "").expect("an answer");
    assert_eq!(status, 200);
    assert!(page.contains("<td>delivered<td class=n>2") && page.contains("connected"), "{page}");
    let (status, metrics) = http(&address, "GET", "/metrics", "").expect("an answer");
    assert_eq!(status, 200);
    check_metrics(&metrics);
    assert!(metrics.contains("\nsteadfast_messages_delivered_total 2\n"), "{metrics}");
    assert!(metrics.contains("steadfast_http_answers_total{status=\"200\"} 1\n"), "{metrics}");

    signal(&running, Signal::SIGTERM);
    let ended = running.end();
    assert_eq!(ended.code(), Some(0), "{ended:?}");
}

/// Each sample belongs to a family that was announced, and has a number.
fn check_metrics(text: &str) {
    let mut family = "";
    for line in text.lines() {
        if let Some(announced) = line.strip_prefix("# TYPE ") {
            family = announced.split(' ').next().expect("a name");
        } else if !line.starts_with('#') {
            let (name, value) = line.rsplit_once(' ').expect("a name and a value");
            assert!(name.starts_with(family), "{line} under {family}");
            value.parse::<f64>().unwrap_or_else(|e| panic!("{line}: {e}"));
        }
    }
}

#[test]
fn a_full_buffer_is_answered_with_503_and_the_pages_still_work() {
    let cluster = Cluster::builder().brokers(1).topic("t").start().expect("ports");
    cluster.fault(On::partition("t", 0), Times::Always, Fault::swallow());
    let args = ["--threads", "2", "--stop-within-ms", "1000", "-X", "buffer.memory=100000"];
    let (running, address) = service(&cluster, &args);
    let body = "x".repeat(40_000);
    let statuses: Vec<u16> =
        (0..3).map(|_| http(&address, "POST", "/topics/t?wait=no", &body).expect("an answer").0).collect();
    assert_eq!(statuses, [202, 202, 503]);
    let (_, page) = http(&address, "GET", "/", "").expect("an answer");
    assert!(page.contains("bytes in the buffer"), "{page}");
    // Two messages can't be delivered: it ends in time all the same, and says that they were left.
    let asked = Instant::now();
    signal(&running, Signal::SIGTERM);
    let ended = running.end();
    assert!(asked.elapsed() < Duration::from_secs(3), "{:?}", asked.elapsed());
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    assert!(ended.stderr.contains("left=2"), "{ended:?}");
}

/// Clients post as fast as they can, half of them without waiting, until the service has gone: every body that was taken
/// is in the log, once.
#[test]
fn sigterm_under_load_loses_nothing_and_keeps_its_deadline() {
    let cluster = Cluster::builder().brokers(3).topic(("t", 6)).start().expect("ports");
    let (running, address) = service(&cluster, &["--stop-within-ms", "5000"]);
    let over = AtomicBool::new(false);
    let (taken, ended, took) = std::thread::scope(|scope| {
        let (address, over) = (&address, &over);
        let clients: Vec<_> =
            (0..8).map(|client| scope.spawn(move || post_until_gone(address, client, over))).collect();
        until("it is under load", || cluster.appended() > 200);
        let asked = Instant::now();
        signal(&running, Signal::SIGTERM);
        let ended = running.end();
        let took = asked.elapsed();
        over.store(true, Ordering::Relaxed);
        let taken: Vec<String> =
            clients.into_iter().flat_map(|client| client.join().expect("a client")).collect();
        (taken, ended, took)
    });
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert!(took < Duration::from_secs(6), "{took:?}");
    assert!(ended.stderr.contains("left=0"), "{ended:?}");
    let mut logged = HashSet::new();
    for message in cluster.messages("t") {
        let value = String::from_utf8(message.value.expect("a body")).expect("text");
        assert!(logged.insert(value.clone()), "{value} is there twice");
    }
    let lost: Vec<&String> = taken.iter().filter(|body| !logged.contains(*body)).collect();
    assert!(taken.len() > 100, "{} bodies were taken", taken.len());
    assert!(lost.is_empty(), "{} of {} taken bodies are lost: {lost:?}", lost.len(), taken.len());
}

/// The bodies that were answered with 200 or 202.
fn post_until_gone(address: &str, client: u32, over: &AtomicBool) -> Vec<String> {
    let mut taken = Vec::new();
    for number in 0.. {
        let body = format!("{client} {number}");
        let path = if client.is_multiple_of(2) { "/topics/t" } else { "/topics/t?wait=no" };
        match http(address, "POST", path, &body) {
            Some((200 | 202, _)) => taken.push(body),
            // Refused; or it came in the moment of the end, when nobody was there any more to answer.
            Some((503 | 500, _)) => {}
            Some((status, answer)) => panic!("{status}: {answer}"),
            None if over.load(Ordering::Relaxed) => break,
            None => std::thread::yield_now(),
        }
    }
    taken
}
