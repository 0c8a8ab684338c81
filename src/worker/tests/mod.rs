//! The loop's own rules, with a scripted engine in place of the real one. Most tests drive the turns by hand, so that "it would
//! sleep now, and for so long" and "this caller rings" can be seen instead of waited for.

mod house;

use super::*;
use crate::control::Flushed;
use crate::delivery::receipt::Receipt;
use crate::engine::io::{ConnId, NetAction};
use crate::error::{Cause, SendError, WaitError};
use crate::intake::{chunks_a_wake, Patience};
use crate::message::Message;
use crate::protocol::frame::Frame;
use house::{house, Heard, Script};
use parking_lot::Mutex;
use std::io::{Read, Write};
use std::net::TcpListener;

const PATIENCE: Duration = Duration::from_secs(20);
const LONG: Duration = Duration::from_secs(3600);

impl<C: Core> Worker<C> {
    /// Turns until nothing is left over, then what it would do: sleep until something happens (None), or for how long.
    fn settle(&mut self) -> Option<Duration> {
        loop {
            self.side.awake();
            assert!(!self.turn());
            if !self.has_more() {
                match self.sleep_time() {
                    Some(Duration::ZERO) => {}
                    asleep => return asleep,
                }
            }
        }
    }
}

#[test]
fn an_idle_worker_sleeps_until_something_happens() {
    let (house, parts) = house(1 << 20, LONG, Script::default());
    let mut worker = parts.worker();
    assert_eq!(worker.settle(), None);
    assert_eq!(house.heard(), []);
    // And for no longer than the engine says.
    house.script.lock().deadline = Some(Instant::now() + LONG);
    let asleep = worker.settle().unwrap();
    assert!(asleep > LONG / 2 && asleep <= LONG);
}

#[test]
fn the_first_message_wakes_an_idle_worker_and_the_next_ones_do_not() {
    let (house, parts) = house(32 << 20, LONG, Script::default());
    let mut worker = parts.worker();
    assert_eq!(worker.settle(), None);
    drop(house.send(100));
    assert_eq!(house.bell.rings(), 1);
    drop(house.send(100));
    assert_eq!(house.bell.rings(), 1, "the worker is on its way already");
    // Now it sleeps until the linger is over, and messages don't wake it, nor do single sealed chunks.
    let asleep = worker.settle().unwrap();
    assert!(asleep > LONG / 2 && asleep <= LONG, "{asleep:?}");
    for _ in 0..chunks_a_wake(32 << 20) - 2 {
        drop(house.send(60 << 10)); // each has a chunk of its own; the first one also seals the open chunk
    }
    assert_eq!(house.bell.rings(), 1);
    // About 1 MiB does.
    drop(house.send(60 << 10));
    assert_eq!(house.bell.rings(), 2);
}

#[test]
fn a_timer_that_runs_longer_than_linger_spares_no_ring() {
    let linger = Duration::from_secs(60);
    let (house, parts) = house(1 << 20, linger, Script::default());
    let mut worker = parts.worker();
    // A request's timeout: a message must not wait for that.
    house.script.lock().deadline = Some(Instant::now() + 10 * linger);
    assert!(worker.settle().unwrap() > 5 * linger);
    drop(house.send(10));
    assert_eq!(house.bell.rings(), 1);
    assert!(worker.settle().unwrap() <= linger);

    // A timer within linger: the worker looks in time anyway.
    let (house, parts) = self::house(1 << 20, linger, Script::default());
    let mut worker = parts.worker();
    house.script.lock().deadline = Some(Instant::now() + linger / 2);
    assert!(worker.settle().unwrap() <= linger / 2);
    drop(house.send(10));
    assert_eq!(house.bell.rings(), 0);
}

#[test]
fn without_linger_a_message_is_taken_at_once() {
    let (house, parts) = house(1 << 20, Duration::ZERO, Script::default());
    let mut worker = parts.worker();
    assert_eq!(worker.settle(), None);
    let receipt = house.send(10);
    assert_eq!(house.bell.rings(), 1);
    assert_eq!(worker.settle(), None);
    assert_eq!(house.heard(), [Heard::Chunk(1)]);
    assert!(receipt.is_settled());
    assert!(house.budget.is_unused());
}

#[test]
fn the_open_chunk_is_taken_when_its_linger_is_over() {
    let linger = Duration::from_millis(30);
    let (house, parts) = house(1 << 20, linger, Script::default());
    let mut worker = parts.worker();
    drop(house.send(10));
    let sent = Instant::now();
    while house.script.lock().heard.is_empty() {
        worker.wait();
        worker.turn();
    }
    assert!(sent.elapsed() >= linger - Duration::from_millis(1), "{:?}", sent.elapsed());
    assert!(worker.wakes <= 3, "{} wakes for one message", worker.wakes);
}

#[test]
fn the_sockets_get_their_turn_and_the_order_stays() {
    let (house, parts) = house(32 << 20, LONG, Script::default());
    let mut worker = parts.worker();
    let mut sent = 0;
    while house.intake.accepted() < 40 {
        drop(house.send(60 << 10));
        sent += 1;
    }
    assert!(!worker.turn());
    assert_eq!(house.heard_chunks(), CHUNKS_A_TURN);
    // What comes before a flush is absorbed before it, in as many turns as that takes; what comes after it lingers.
    drop(house.send(10));
    house.ask_to_flush();
    drop(house.send(20));
    worker.settle();
    let heard = house.heard();
    assert_eq!(heard.len(), sent - CHUNKS_A_TURN + 2);
    assert!(matches!(heard.last(), Some(Heard::Flush(_))));
    // The open chunk went along, with the message that came before the worker looked.
    assert_eq!(heard[heard.len() - 2], Heard::Chunk(2));
}

#[test]
fn a_flush_rings_takes_the_open_chunk_and_is_answered() {
    let (house, parts) = house(1 << 20, LONG, Script { holds: true, ..Script::default() });
    let mut worker = parts.worker();
    drop(house.send(10));
    worker.settle();
    let before = house.bell.rings();
    std::thread::scope(|scope| {
        let flush = scope.spawn(|| house.control.flush(PATIENCE, || house.bell.urgent()));
        while !house.control.is_asked() {
            std::thread::yield_now();
        }
        worker.settle();
        assert!(matches!(house.heard()[..], [Heard::Chunk(1), Heard::Flush(_)]));
        assert!(!flush.is_finished());
        house.script.lock().holds = false;
        worker.settle();
        assert_eq!(flush.join().unwrap(), Flushed::Done);
    });
    assert_eq!(house.bell.rings(), before + 1);
}

#[test]
fn who_waits_for_room_ends_linger_only_when_nothing_is_on_its_way() {
    let script = Script { holds: true, in_flight: true, ..Script::default() };
    let (house, parts) = house(64 << 10, LONG, script);
    let mut worker = parts.worker();
    for _ in 0..40 {
        drop(house.send(1500));
    }
    worker.settle();
    assert!(house.heard_chunks() > 0 && house.intake.has_messages());
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| house.try_send(5000).map(drop));
        while !house.budget.is_contended() {
            std::thread::yield_now();
        }
        // Something is on its way: linger goes on, and the worker sleeps.
        let asleep = worker.settle().unwrap();
        assert!(asleep > LONG / 2, "{asleep:?}");
        assert_eq!(house.heard().iter().filter(|heard| matches!(heard, Heard::Pressure(_))).count(), 0);
        // Nothing is any more: the open chunk is taken, the engine is told once, and the worker does not spin for it.
        house.script.lock().in_flight = false;
        assert_eq!(worker.settle(), None);
        let mut heard = house.heard();
        heard.sort_by_key(|heard| matches!(heard, Heard::Chunk(_)));
        assert!(matches!(heard[..], [Heard::Pressure(true), Heard::Chunk(_)]), "{heard:?}");
        assert_eq!(worker.settle(), None);
        assert_eq!(house.heard(), []);
        assert!(!waiter.is_finished());
        // Room: the waiter is served, and the engine hears that nobody waits.
        house.script.lock().holds = false;
        worker.settle();
        assert_eq!(waiter.join().unwrap(), Ok(()));
        worker.settle();
        assert_eq!(house.heard().first(), Some(&Heard::Pressure(false)));
    });
}

#[test]
fn a_stop_ends_with_everything_told_and_the_door_shut() {
    let (house, parts) = house(1 << 20, LONG, Script::default());
    let receipt = house.send(10);
    // Somebody slips in at the very last moment, when the engine has nothing left.
    let late = {
        let intake = house.intake.clone();
        let late = Arc::new(Mutex::new(None));
        let slot = late.clone();
        house.script.lock().meanwhile = Some(Box::new(move || {
            *slot.lock() = Some(intake.send(0, &Message::new(b"late"), Patience::Wait).unwrap());
        }));
        late
    };
    house.control.stop(Some(Instant::now() + PATIENCE), || house.bell.urgent());
    parts.start().join().unwrap();
    assert_eq!(house.heard(), [Heard::Chunk(1), Heard::Stop, Heard::Chunk(1)]);
    assert!(receipt.is_settled() && late.lock().take().unwrap().is_settled());
    assert_eq!(house.try_send(1).err(), Some(SendError::Stopped));
    let end = house.control.end().unwrap();
    assert_eq!((end.died, end.left), (None, 0));
    assert_eq!(house.control.flush(PATIENCE, || ()), Flushed::Done);
    assert_eq!(house.control.snapshot(PATIENCE, || ()).stats.delivered, 2);
    assert!(house.control.wait_told(Some(Instant::now())));
}

#[test]
fn who_wants_an_answer_gets_one() {
    let (house, parts) = house(1 << 20, LONG, Script::default());
    let thread = parts.start();
    let ring = || house.bell.urgent();
    assert_eq!(house.control.wait_until_ready(vec![], PATIENCE, ring), Ok(()));
    let refused = house.control.wait_until_ready(vec![3], Duration::from_millis(200), ring);
    assert_eq!(refused, Err(Some("no such topic".into())));
    assert_eq!(house.heard(), [Heard::Want(vec![]), Heard::Want(vec![3])]);
    drop(house.send(10));
    assert_eq!(house.control.flush(PATIENCE, ring), Flushed::Done);
    let stats = house.control.snapshot(PATIENCE, ring).stats;
    assert_eq!((stats.accepted, stats.delivered, stats.bytes_queued), (1, 1, 0));
    assert!(stats.rings > 0 && stats.worker_wakes > 0);
    house.control.stop(None, ring);
    thread.join().unwrap();
}

#[test]
fn nobody_asks_nobody_wakes() {
    let (house, parts) = house(1 << 20, Duration::from_millis(1), Script::default());
    let thread = parts.start();
    let ring = || house.bell.urgent();
    drop(house.send(10));
    assert_eq!(house.control.flush(PATIENCE, ring), Flushed::Done);
    let before = house.control.snapshot(PATIENCE, ring).stats.worker_wakes;
    let advances = house.script.lock().advances;
    std::thread::sleep(Duration::from_millis(300)); // nothing is to happen in it
    assert!(house.script.lock().advances <= advances + 1);
    let after = house.control.snapshot(PATIENCE, ring).stats.worker_wakes;
    assert!(after <= before + 2, "{} wakes of an idle worker", after - before);
    house.control.stop(None, ring);
    thread.join().unwrap();
}

#[test]
fn a_worker_that_polls_needs_no_ring() {
    let (house, parts) = house(1 << 20, Duration::ZERO, Script::default());
    let mut worker = parts.worker();
    worker.settle();
    worker.side.awake();
    worker.spin = PATIENCE;
    worker.last_work = Instant::now();
    let began = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| drop(house.send(10)));
        assert!(worker.poll_a_while());
    });
    assert!(began.elapsed() < PATIENCE);
    worker.turn();
    assert_eq!((house.heard_chunks(), house.bell.rings()), (1, 0));
    // Not for longer than it was told, and not long after the last work.
    worker.spin = Duration::from_millis(2);
    worker.last_work = Instant::now();
    assert!(!worker.poll_a_while());
    worker.spin = PATIENCE;
    worker.last_work = Instant::now().checked_sub(5 * PATIENCE).unwrap_or(worker.last_work);
    if worker.last_work.elapsed() > 4 * PATIENCE {
        assert!(!worker.poll_a_while());
    }
}

#[test]
fn verdicts_reach_the_callback_before_the_flush_is_done() {
    let (house, parts) = house(1 << 20, LONG, Script { callback: true, ..Script::default() });
    let thread = parts.start();
    let ring = || house.bell.urgent();
    for round in 1..=20 {
        drop((0..round).map(|_| house.send(10)).collect::<Vec<_>>());
        assert_eq!(house.control.flush(PATIENCE, ring), Flushed::Done);
        assert_eq!(std::mem::take(&mut *house.told.lock()).iter().sum::<u64>(), round);
        assert!(house.budget.is_unused());
    }
    house.control.stop(None, ring);
    thread.join().unwrap();
    assert!(house.control.wait_told(Some(Instant::now() + PATIENCE)));
}

#[test]
fn it_does_on_the_network_what_the_engine_asks_for() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let conn = ConnId(0);
    let mut request = Frame::new(8);
    request.framing().extend(b"hello");
    let request = request.finish();
    let script = Script {
        net: vec![
            NetAction::Resolve { conn: ConnId(1), host: "127.0.0.1".into(), port: 1 },
            NetAction::Open { conn, addr },
            NetAction::Send { conn, frame: request.clone() },
        ],
        ..Script::default()
    };
    let (house, parts) = house(1 << 20, LONG, script);
    let thread = parts.start();
    let (mut peer, _) = listener.accept().unwrap();
    let mut got = vec![0; request.len()];
    peer.read_exact(&mut got).unwrap();
    assert_eq!(got, request.to_vec());
    peer.write_all(&got).unwrap();
    let end = Instant::now() + PATIENCE;
    while !house.script.lock().heard.contains(&Heard::Frame(b"hello".to_vec())) {
        assert!(Instant::now() < end);
        std::thread::yield_now();
    }
    house.control.stop(None, || house.bell.urgent());
    thread.join().unwrap();
    // Everything was told, and written before answered.
    let mut heard = house.heard();
    heard.retain(|heard| *heard != Heard::Resolved);
    let expected = [Heard::Opened, Heard::Written(1, 1), Heard::Frame(b"hello".to_vec()), Heard::Stop];
    assert_eq!(heard, expected);
    // The connection ended with the worker.
    assert_eq!(peer.read(&mut [0]).unwrap(), 0);
}

fn died_of(receipt: &Receipt) -> Arc<str> {
    match receipt.wait_timeout(PATIENCE) {
        Err(WaitError::Dropped(dropped)) => match &dropped.error.cause {
            Cause::WorkerDied { reason } => reason.clone(),
            other => panic!("{other}"),
        },
        other => panic!("{other:?}"),
    }
}

/// Three messages in one chunk kill it; what it held before, that chunk itself, and what comes behind it get their verdict.
#[test]
fn a_panic_loses_no_verdict_and_leaves_nobody_waiting() {
    for callback in [false, true] {
        let words = "the engine's words";
        let script = Script { holds: true, panics_on: Some((3, words)), callback, ..Script::default() };
        let (house, parts) = house(1 << 20, LONG, script);
        let held = house.send(60 << 10); // has a chunk of its own: held by the engine by then
        let killers = [house.send(10), house.send(11), house.send(12)];
        let thread = parts.start();
        std::thread::scope(|scope| {
            let flush = scope.spawn(|| house.control.flush(PATIENCE, || house.bell.urgent()));
            let waiter = scope.spawn(|| house.try_send((1 << 20) - 5000).map(drop));
            assert_eq!(flush.join().unwrap(), Flushed::Died(words.into()));
            assert_eq!(waiter.join().unwrap(), Err(SendError::WorkerDied { reason: words.into() }));
        });
        thread.join().expect("the panic is caught");
        assert_eq!(&*died_of(&held), words);
        killers.iter().for_each(|receipt| assert_eq!(&*died_of(receipt), words));
        assert_eq!(house.try_send(1).err(), Some(SendError::WorkerDied { reason: words.into() }));
        let end = house.control.wait_end(Some(Instant::now() + PATIENCE)).unwrap();
        assert_eq!(end.died.as_deref(), Some(words));
        assert_eq!(house.control.flush(PATIENCE, || ()), Flushed::Died(words.into()));
        assert!(house.control.wait_told(Some(Instant::now() + PATIENCE)));
        assert_eq!(house.told.lock().iter().sum::<u64>(), if callback { 4 } else { 0 });
    }
}
