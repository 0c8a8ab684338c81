//! A real fork: the child has a copy of the producer and no worker. It gets errors, and hangs nowhere.
//!
//! Alone in its process: the child must not have other tests' threads in the middle of something.
#![cfg(unix)]

use fork::{fork, waitpid, Fork};
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::time::Duration;
use steadfast::{Config, FlushError, Producer, SendError, StopEnd, WaitError};

/// What the child finds; the first thing that is not as it should be, in words.
fn in_the_child(producer: Producer, receipt: &steadfast::Receipt) -> Result<(), String> {
    let forever = Duration::from_secs(3600);
    let expect = |what: &str, is_so: bool| if is_so { Ok(()) } else { Err(what.to_owned()) };
    expect("a wait", matches!(receipt.wait(), Err(WaitError::Forked)))?;
    expect("a flush", producer.flush(forever) == Err(FlushError::Forked))?;
    expect("a stop", producer.stop(forever).end == StopEnd::Forked)?;
    expect("readiness", producer.wait_until_ready(&[], forever).is_err())?;
    expect("statistics", producer.stats().accepted > 0)?;
    // What was open at the fork may still take some, then comes the error.
    let refused = (0..10_000).find_map(|_| producer.send("t", &vec![0; 1_000]).err());
    expect("a send", refused == Some(SendError::Forked))?;
    let large = producer.send("t", &vec![0; 100_000]).err();
    expect("a large send", large == Some(SendError::Forked))?;
    drop(producer);
    Ok(())
}

#[test]
fn the_child_gets_errors_and_the_parent_goes_on() {
    let cluster = steadfast::testing::Cluster::builder().brokers(1).topic("t").start().unwrap();
    let mut settings = Config::new(cluster.bootstrap());
    settings = settings.set("linger.ms", "60000").unwrap();
    let producer = Producer::new(settings).unwrap();
    let receipt = producer.send("t", "before").unwrap();
    let (mut parents, childs) = UnixStream::pair().unwrap();
    match fork().unwrap() {
        Fork::Child => {
            let result = in_the_child(producer, &receipt);
            // Told through a socket: the test's own output is not to be relied on here. The exit runs no destructors: what
            // else there is belongs to the parent.
            let words = result.err().unwrap_or_else(|| "fine".into());
            std::io::Write::write_all(&mut &childs, words.as_bytes()).unwrap();
            std::process::exit(0);
        }
        Fork::Parent(child) => {
            drop(childs);
            parents.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            let mut words = String::new();
            let heard = parents.read_to_string(&mut words);
            if heard.is_err() {
                let _ = nix::sys::signal::kill(
                    nix::unistd::Pid::from_raw(child),
                    nix::sys::signal::Signal::SIGKILL,
                );
            }
            waitpid(child).unwrap();
            heard.expect("the child hangs");
            assert_eq!(words, "fine");
            assert!(receipt.result(0).is_none(), "the child has not touched the parent's message");
            assert!(producer.stop(Duration::from_secs(60)).is_clean());
            assert_eq!(receipt.wait_one().unwrap().offset, Some(0));
        }
    }
}
