//! Prints the table: `docs/classification.md`.

use super::{classify, Attempt, Ruling, Special, Verdict, A_FEW};
use crate::config::settings::Acks;
use crate::protocol::error_code::ErrorCode;
use std::collections::HashMap;
use std::fmt::Write;

const HEAD: &str = "\
# What becomes of a refused batch

<!-- Printed from src/engine/classify.rs: STEADFAST_WRITE_DOCS=1 cargo test classification_document -->

Every attempt to deliver a batch ends in one of the rows below, and nothing else decides what is done about it.
`steadfast::classify` is the same table as a function. Single codes can be given another class in the settings; such a code has
no special way and no limit of its own.

The columns:

- **class**: `Delivered`; `RetryAfterRefresh` (the view of the cluster is refreshed; at once again where it then names a newer
  leader than those that refused the batch, else after a backoff); `RetryAfterBackoff` (wait, then again); `Drop` (the messages
  are handed back with the error).
- **written?**: whether the batch may be in the log all the same. If it is dropped then, its fate is `Unknown`; and without
  idempotence `retry_ambiguous` decides whether it is sent again at all. An earlier attempt of which this is true is not made
  undone by a later refusal.
- **counted**: whether a repetition counts towards `batch_retries_limit`.
- **own limit**: how many repetitions the code gets at most, however many `batch_retries_limit` allows. After that the batch is
  dropped.

`delivery.timeout.ms` bounds all of it. What is not in the table, because no attempt was made: a refused connection, a topic
that the cluster does not name (yet), a partition without a leader, a throttle. A batch waits through these uncounted.
";

const UNANSWERED: &str = "
## Without an answer

| how it ended | class | written? | counted | own limit | what happens | why |
|---|---|---|---|---|---|---|
";

const APPENDED: &str = "
## Appended, then refused

With `acks=all` a broker appends first and then waits for the replicas. When it loses the partition meanwhile it refuses the
batch with an offset in its answer: the next leader may have the batch, or may not.

| code | class | written? | counted | own limit | what happens | why |
|---|---|---|---|---|---|---|
";

const ANSWERED: &str = "
## With an answer

A code with two rows is judged differently with and without idempotence.

| code | name | class | written? | counted | own limit | what happens | why |
|---|---|---|---|---|---|---|---|
";

pub(super) fn document() -> String {
    let mut out = String::from(HEAD);
    out.push_str(UNANSWERED);
    let lost = "the connection was lost after the first byte of the request";
    for (text, attempt, acks) in [
        (lost, Attempt::Disconnected, Acks::All),
        ("the same, with `acks=0`", Attempt::Disconnected, Acks::Zero),
        ("no answer within `request.timeout.ms`; the connection is closed", Attempt::TimedOut, Acks::All),
    ] {
        row(&mut out, text, &classify(attempt, true, acks, &HashMap::new()));
    }
    out.push_str(APPENDED);
    for code in
        [ErrorCode::UnknownTopicOrPartition, ErrorCode::NotLeaderOrFollower, ErrorCode::KafkaStorageError]
    {
        row(
            &mut out,
            &code.to_string(),
            &classify(Attempt::answered(code, 0), true, Acks::All, &HashMap::new()),
        );
    }
    out.push_str(ANSWERED);
    for &code in ErrorCode::ALL {
        let [with, without] = [true, false].map(|idempotent| of_code(code, idempotent));
        let name = format!("{} | {}", code.code(), code.name());
        if with == without {
            row(&mut out, &name, &with);
        } else {
            row(&mut out, &format!("{name}, with idempotence"), &with);
            row(&mut out, &format!("{name}, without"), &without);
        }
    }
    row(&mut out, "other | a code that Kafka 4.4 does not have", &of_code(ErrorCode::from(i16::MAX), true));
    out
}

fn of_code(code: ErrorCode, idempotent: bool) -> Ruling {
    classify(Attempt::Answered(code), idempotent, Acks::All, &HashMap::new())
}

fn row(out: &mut String, first: &str, ruling: &Ruling) {
    let limit = ruling.limit.map_or_else(|| "-".to_owned(), |limit| limit.to_string());
    let written = match ruling.verdict {
        Verdict::Delivered => "yes",
        _ if ruling.ambiguous => "maybe",
        _ => "no",
    };
    let counted = match ruling.verdict {
        Verdict::Delivered | Verdict::Drop => "-",
        _ if ruling.counted => "yes",
        _ => "no",
    };
    let Ruling { verdict, reason, .. } = ruling;
    let what = what_happens(ruling);
    writeln!(out, "| {first} | {verdict:?} | {written} | {counted} | {limit} | {what} | {reason} |")
        .expect("a String takes everything");
}

fn what_happens(ruling: &Ruling) -> String {
    let mut text = String::from(match ruling.special {
        Special::None | Special::UnknownTopic => "",
        Special::Duplicate => "the receipt is settled; the offset is known only where the answer names it",
        Special::Split => {
            "several messages: cut into pieces, which are sent again, uncounted; a single one: handed back"
        }
        Special::NamedRecords => {
            "the messages that the broker named are handed back, the others sent again, uncounted; where it named none, all, \
             or one that is not there: all are handed back"
        }
        Special::RecoverSequence => {
            "the sequence is put right (a new epoch where it has a hole), then again; a second time without an \
             acknowledgement in between is counted"
        }
        Special::Renegotiate => "the connection is closed, the next one agrees on versions anew; ",
        Special::Rebootstrap => "all connections are closed, `bootstrap.servers` asked again; ",
    });
    if matches!(ruling.special, Special::Split | Special::NamedRecords | Special::RecoverSequence) {
        return text;
    }
    text.push_str(match (ruling.verdict, ruling.refresh) {
        (Verdict::Delivered, _) if ruling.special == Special::None => "the receipt is settled",
        (Verdict::Delivered, _) => "",
        (Verdict::RetryAfterRefresh, _) => "refresh, then again: at once or after a backoff",
        (Verdict::RetryAfterBackoff, true) => "again after a backoff, with a refresh meanwhile",
        (Verdict::RetryAfterBackoff, false) => "again after a backoff",
        (Verdict::Drop, _) if ruling.ambiguous => "handed back, fate unknown",
        (Verdict::Drop, _) => "handed back",
    });
    if ruling.special == Special::UnknownTopic {
        text.push_str("; handed back when the grace for unknown topics (30 s) is over");
    }
    text
}

#[test]
fn classification_document_is_what_the_code_prints() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/classification.md");
    let printed = document();
    if std::env::var_os("STEADFAST_WRITE_DOCS").is_some() {
        std::fs::write(path, &printed).expect("docs/ can be written to");
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        written == printed,
        "docs/classification.md is not what the code says: STEADFAST_WRITE_DOCS=1 cargo test classification_document"
    );
    assert_eq!(A_FEW, 3, "the text says: a few");
}
