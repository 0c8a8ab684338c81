//! What takes long and must not hold up the worker: looking up names, compressing batches.
//!
//! Two threads, each started when first needed, because a name server that is away takes many seconds and no batch should wait
//! for it. Nobody joins them: they end when the worker's end of their channel is gone, after what they are at.

use crate::engine::io::{CompressJob, Compressed, ConnId};
use crate::handover::panic_text;
use crate::protocol::compression;
use crossbeam_channel::{Receiver, Sender};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Weak};
use std::thread;

/// Addresses, or in words why there are none.
pub type Addresses = Result<Vec<SocketAddr>, String>;

/// The long computations themselves; tests put their own in.
#[derive(Clone, Copy)]
pub struct Chores {
    pub resolve: fn(host: &str, port: u16) -> Addresses,
    pub compress: fn(&CompressJob) -> Result<Vec<u8>, String>,
}

impl Chores {
    /// The system's resolver, and the codecs.
    pub fn real() -> Chores {
        Chores { resolve, compress }
    }
}

/// What came back.
#[derive(Debug)]
pub enum Done {
    Resolved(ConnId, Addresses),
    Compressed(Compressed),
}

/// The worker's end.
pub struct Helper {
    chores: Chores,
    names: Option<Sender<NameJob>>,
    batches: Option<Sender<CompressJob>>,
    /// Names that are still wanted. A look-up that nobody waits for any more isn't begun.
    wanted: HashMap<ConnId, Arc<()>>,
    done: Receiver<Done>,
    back: Back,
}

struct NameJob {
    conn: ConnId,
    host: String,
    port: u16,
    wanted: Weak<()>,
}

/// The way back to the worker.
#[derive(Clone)]
struct Back {
    done: Sender<Done>,
    wake: Arc<dyn Fn() + Send + Sync>,
}

impl Back {
    fn send(&self, done: Done) {
        // Nobody there any more: the producer has stopped.
        if self.done.send(done).is_ok() {
            (self.wake)();
        }
    }
}

impl Helper {
    /// `wake`: called on the helper's threads whenever something came back.
    pub fn new(chores: Chores, wake: Arc<dyn Fn() + Send + Sync>) -> Helper {
        let (sender, done) = crossbeam_channel::unbounded();
        let back = Back { done: sender, wake };
        Helper { chores, names: None, batches: None, wanted: HashMap::new(), done, back }
    }

    pub fn resolve(&mut self, conn: ConnId, host: String, port: u16) {
        let wanted = Arc::new(());
        let job = NameJob { conn, host, port, wanted: Arc::downgrade(&wanted) };
        self.wanted.insert(conn, wanted);
        if let Ok(ip) = job.host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            self.back.send(Done::Resolved(conn, Ok(vec![SocketAddr::new(ip, port)])));
            return;
        }
        let (back, resolve) = (self.back.clone(), self.chores.resolve);
        let started = start(&mut self.names, "steadfast-names", move |job: NameJob| {
            if job.wanted.strong_count() > 0 {
                let result = guarded("the resolver", || resolve(&job.host, job.port));
                back.send(Done::Resolved(job.conn, result));
            }
        });
        match started {
            Ok(names) => hand_over(names, job),
            Err(e) => {
                let words = format!("no thread to look up {}: {e}", job.host);
                self.back.send(Done::Resolved(conn, Err(words)));
            }
        }
    }

    /// Nobody waits for this name any more.
    pub fn forget(&mut self, conn: ConnId) {
        self.wanted.remove(&conn);
    }

    /// Results come back in the order of the jobs.
    pub fn compress(&mut self, job: CompressJob) {
        let (back, compress) = (self.back.clone(), self.chores.compress);
        let started = start(&mut self.batches, "steadfast-compression", move |job: CompressJob| {
            let result = guarded("the codec", || compress(&job));
            back.send(Done::Compressed(Compressed { job: job.job, result, records: job.records }));
        });
        match started {
            Ok(batches) => hand_over(batches, job),
            Err(e) => {
                let result = Err(format!("no thread to compress on: {e}"));
                self.back.send(Done::Compressed(Compressed { job: job.job, result, records: job.records }));
            }
        }
    }

    pub fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    /// The next result, unless nobody waits for it any more.
    pub fn next_done(&mut self) -> Option<Done> {
        loop {
            match self.done.try_recv().ok()? {
                Done::Resolved(conn, _) if self.wanted.remove(&conn).is_none() => {}
                done => return Some(done),
            }
        }
    }
}

/// The thread that does `each` job, started if it isn't yet.
fn start<'a, T: Send + 'static>(
    sender: &'a mut Option<Sender<T>>,
    name: &str,
    each: impl Fn(T) + Send + 'static,
) -> io::Result<&'a Sender<T>> {
    if sender.is_none() {
        let (jobs, inbox) = crossbeam_channel::unbounded();
        thread::Builder::new().name(name.to_owned()).spawn(move || inbox.iter().for_each(each))?;
        *sender = Some(jobs);
    }
    Ok(sender.as_ref().expect("started"))
}

/// A panic in there is an answer too; without one, whoever asked would wait for ever.
fn guarded<T>(what: &str, work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|panic| Err(format!("{what} panicked: {}", panic_text(&*panic))))
}

fn hand_over<T>(jobs: &Sender<T>, job: T) {
    assert!(jobs.send(job).is_ok(), "a helper thread ended by itself");
}

fn compress(job: &CompressJob) -> Result<Vec<u8>, String> {
    compression::compress(job.codec, job.level, &job.records[..job.used], Vec::new())
}

/// What the system's resolver says.
fn resolve(host: &str, port: u16) -> Addresses {
    match (host, port).to_socket_addrs() {
        Ok(addresses) => Some(addresses.collect::<Vec<_>>())
            .filter(|addresses| !addresses.is_empty())
            .ok_or_else(|| format!("{host} has no address")),
        Err(e) => Err(format!("{host} does not resolve: {e}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::compression::Codec;
    use std::time::{Duration, Instant};

    const NEVER: fn(&str, u16) -> Addresses = |host, _| panic!("looked up {host}");

    fn job(job: u64, records: &[u8]) -> CompressJob {
        CompressJob {
            job,
            codec: Codec::Gzip,
            level: None,
            records: std::sync::Arc::new(records.to_vec()),
            used: records.len(),
        }
    }

    /// The next result, waited for.
    fn next(helper: &mut Helper, bell: &Receiver<()>) -> Done {
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            if let Some(done) = helper.next_done() {
                return done;
            }
            bell.recv_deadline(end).expect("the helper rings when something is done");
        }
    }

    fn helper(chores: Chores) -> (Helper, Receiver<()>) {
        let (ring, bell) = crossbeam_channel::unbounded();
        (Helper::new(chores, Arc::new(move || ring.send(()).unwrap_or(()))), bell)
    }

    #[test]
    fn compressed_batches_come_back_in_order_and_with_their_buffer() {
        let compress: fn(&CompressJob) -> Result<Vec<u8>, String> = |job| match job.job % 3 {
            0 => Err("no".to_owned()),
            1 => panic!("bad {}", job.job),
            _ => Ok(job.records[..job.used].iter().rev().copied().collect()),
        };
        let (mut helper, bell) = helper(Chores { resolve: NEVER, compress });
        for number in 0..9 {
            helper.compress(job(number, &[1, 2, number as u8]));
        }
        for number in 0..9 {
            let Done::Compressed(done) = next(&mut helper, &bell) else { panic!("no name was asked for") };
            assert_eq!((done.job, done.records), (number, std::sync::Arc::new(vec![1, 2, number as u8])));
            let expected = match number % 3 {
                0 => Err("no".to_owned()),
                1 => Err(format!("the codec panicked: bad {number}")),
                _ => Ok(vec![number as u8, 2, 1]),
            };
            assert_eq!(done.result, expected);
        }
    }

    #[test]
    fn numbers_need_no_thread() {
        let (mut helper, bell) = helper(Chores { resolve: NEVER, compress: |_| Err(String::new()) });
        for (host, ip) in [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("[::1]", "::1")] {
            helper.resolve(ConnId(1), host.to_owned(), 9092);
            let Done::Resolved(ConnId(1), Ok(found)) = next(&mut helper, &bell) else { panic!("{host}") };
            assert_eq!(found, [SocketAddr::new(ip.parse().unwrap(), 9092)]);
        }
        assert!(helper.names.is_none());
    }

    /// Blocks the thread of names until a listener closes: the name is its port.
    fn hang(host: &str, _: u16) -> Addresses {
        use std::io::Read;
        let port = host.rsplit('-').next().unwrap().parse::<u16>().unwrap();
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).map_err(|e| e.to_string())?;
        stream.read(&mut [0]).map_err(|e| e.to_string())?;
        Err(format!("{host} hung"))
    }

    #[test]
    fn the_codecs_are_at_work() {
        let job = CompressJob { codec: Codec::Lz4, used: 4000, ..job(1, &[b'a'; 5000]) };
        let compressed = (Chores::real().compress)(&job).unwrap();
        assert!(compressed.len() < 400);
        assert_eq!(compression::decompress(Codec::Lz4, &compressed, 1 << 20).unwrap(), [b'a'; 4000]);
    }

    #[test]
    fn a_name_that_hangs_holds_up_no_batch_and_no_later_look_up_that_was_given_up() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (mut helper, bell) = helper(Chores { resolve: hang, compress: |job| Ok(job.records.to_vec()) });
        helper.resolve(ConnId(1), format!("first-{port}"), 1);
        let (hanging, _) = listener.accept().unwrap(); // now it hangs
        helper.resolve(ConnId(2), format!("second-{port}"), 1);
        helper.resolve(ConnId(3), "third-1".to_owned(), 1);
        helper.compress(job(7, b"abc"));
        let Done::Compressed(done) = next(&mut helper, &bell) else { panic!("the name hangs") };
        assert_eq!((done.job, done.result), (7, Ok(b"abc".to_vec())));
        // Given up while running, and before it began: neither is told, and the second isn't even begun.
        helper.forget(ConnId(1));
        helper.forget(ConnId(2));
        drop(hanging);
        let Done::Resolved(ConnId(3), Err(_)) = next(&mut helper, &bell) else {
            panic!("only the third is wanted")
        };
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err(), "the second was looked up although nobody waited for it");
    }

    #[test]
    fn a_name_that_does_not_resolve_is_named() {
        // No name server is asked for one that can't be written down.
        let words = resolve("bro\0ker", 9092).unwrap_err();
        assert!(words.starts_with("bro\0ker does not resolve: "), "{words}");
    }
}
