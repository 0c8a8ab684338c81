//! One request: its body goes to Kafka, and the answer says what became of it.

use serde_json::{json, Value};
use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;
use steadfast::{Delivered, Fate, Message, Producer, SendError, WaitError};
use tiny_http::{Header, Request, Response};

/// A longer body is refused.
const BODY_MAX: u64 = 1 << 20;

/// What the threads share.
#[derive(Clone)]
pub(crate) struct Handler {
    producer: Producer,
    answer_within: Duration,
    answers: Arc<Counts>,
}

/// Answers so far, by status.
#[derive(Default)]
struct Counts {
    ok: AtomicU64,
    accepted: AtomicU64,
    refused: AtomicU64,
    unavailable: AtomicU64,
    dropped: AtomicU64,
}

impl Handler {
    pub(crate) fn new(producer: Producer, answer_within: Duration) -> Handler {
        Handler { producer, answer_within, answers: Arc::default() }
    }

    /// Status and count.
    pub(crate) fn answers(&self) -> [(&'static str, u64); 5] {
        let counts = &self.answers;
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        [
            ("200", load(&counts.ok)),
            ("202", load(&counts.accepted)),
            ("4xx", load(&counts.refused)),
            ("502", load(&counts.dropped)),
            ("503", load(&counts.unavailable)),
        ]
    }

    /// Sends the body and answers.
    pub(crate) fn handle(&self, mut request: Request) {
        let (status, body) = match read_body(&mut request) {
            Ok(body) => self.send(&request, &body),
            Err(refusal) => refusal,
        };
        self.count(status);
        answer_json(request, status, &body);
    }

    /// 503: try again later.
    pub(crate) fn refuse(&self, request: Request, why: &str) {
        self.count(503);
        answer_json(request, 503, &json!({ "error": why }));
    }

    fn send(&self, request: &Request, body: &[u8]) -> (u16, Value) {
        let (path, query) = request.url().split_once('?').unwrap_or((request.url(), ""));
        let topic = path.trim_start_matches("/topics/");
        let key = header(request, "Kafka-Key");
        let message = Message { key: key.map(str::as_bytes), value: Some(body), ..Message::default() };
        // A thread of a service has better things to do than to wait for room: the client is told to come back.
        let receipt = match self.producer.try_send(topic, message) {
            Ok(receipt) => receipt,
            Err(error) => return (status_of(&error), json!({ "error": error.to_string() })),
        };
        if query.split('&').any(|part| part == "wait=no") {
            return (202, json!({ "accepted": true }));
        }
        match receipt.wait_one_timeout(self.answer_within) {
            Ok(Delivered { topic, partition, offset, .. }) => {
                (200, json!({ "topic": *topic, "partition": partition, "offset": offset }))
            }
            Err(WaitError::Dropped(dropped)) => {
                let written = match dropped.error.fate {
                    Fate::NotWritten => "no",
                    Fate::Unknown => "unknown",
                };
                (502, json!({ "error": dropped.error.to_string(), "written": written }))
            }
            // It has been accepted and will be sent; there is just no verdict yet.
            Err(error) => (202, json!({ "accepted": true, "verdict": error.to_string() })),
        }
    }

    fn count(&self, status: u16) {
        let counts = &self.answers;
        let count = match status {
            200 => &counts.ok,
            202 => &counts.accepted,
            503 => &counts.unavailable,
            502 => &counts.dropped,
            _ => &counts.refused,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

fn status_of(error: &SendError) -> u16 {
    match error {
        SendError::CallTooLarge { .. } | SendError::MessageTooLarge { .. } => 413,
        SendError::InvalidTopic { .. } => 400,
        // The buffer is full, or the service stops.
        _ => 503,
    }
}

fn read_body(request: &mut Request) -> Result<Vec<u8>, (u16, Value)> {
    let mut body = Vec::new();
    match request.as_reader().take(BODY_MAX + 1).read_to_end(&mut body) {
        Ok(_) if body.len() as u64 > BODY_MAX => {
            Err((413, json!({ "error": format!("the limit is {BODY_MAX} bytes") })))
        }
        Ok(_) => Ok(body),
        Err(error) => Err((400, json!({ "error": error.to_string() }))),
    }
}

fn header<'a>(request: &'a Request, name: &'static str) -> Option<&'a str> {
    request.headers().iter().find(|header| header.field.equiv(name)).map(|header| header.value.as_str())
}

pub(crate) fn answer_json(request: Request, status: u16, body: &Value) {
    answer(request, status, "application/json", format!("{body}\n"));
}

pub(crate) fn answer(request: Request, status: u16, content_type: &str, body: String) {
    let mut response = Response::from_string(body).with_status_code(status);
    let headers =
        [("Content-Type", content_type)].into_iter().chain((status == 503).then_some(("Retry-After", "1")));
    for (name, value) in headers {
        response.add_header(Header::from_bytes(name, value).expect("plain names and values"));
    }
    // A client that has gone away does not learn it; the message is sent all the same.
    if let Err(error) = request.respond(response) {
        log::debug!("a client went away before its answer: {error}");
    }
}
