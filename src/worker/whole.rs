//! The loop with the real engine, against the embedded cluster: what the scripted engine can't show.

use super::*;
use crate::config::Config;
use crate::control::{Control, Flushed};
use crate::engine::Engine;
use crate::intake::budget::Budget;
use crate::intake::doorbell::Doorbell;
use crate::intake::topics::TopicNames;
use crate::intake::{chunks_a_wake, Intake, Limits, Patience};
use crate::message::Message;
use crate::testing::Cluster;

const PATIENCE: Duration = Duration::from_secs(60);

struct Whole {
    intake: Arc<Intake>,
    control: Arc<Control>,
    names: Arc<TopicNames>,
    thread: JoinHandle<()>,
}

fn whole(config: Config) -> Whole {
    let settings = Arc::new(config.settings().unwrap());
    let (poll, wake) = poll().unwrap();
    let budget = Arc::new(Budget::new(settings.buffer_bytes));
    let bell = Arc::new(Doorbell::new(chunks_a_wake(settings.buffer_bytes), wake));
    let origin = Arc::new(Origin::new(Duration::ZERO));
    let limits = Limits { max_message: settings.max_request_bytes, max_block: settings.max_block };
    let (intake, ends) = Intake::new(budget.clone(), bell, origin.clone(), &limits);
    let (intake, control) = (Arc::new(intake), Arc::new(Control::new()));
    let names = Arc::new(TopicNames::new());
    let engine = Engine::new(settings.clone(), names.clone(), budget, false, Instant::now(), 7);
    let side = WorkerSide::new(intake.clone(), ends, control.clone(), None, settings.linger);
    let thread = start(engine, poll, origin, side, Pace::of(&settings)).unwrap();
    Whole { intake, control, names, thread }
}

impl Whole {
    fn ring(&self) -> impl FnOnce() + '_ {
        || self.intake.bell().urgent()
    }

    fn flush(&self) {
        assert_eq!(self.control.flush(PATIENCE, self.ring()), Flushed::Done);
    }
}

#[test]
fn messages_reach_the_log_through_a_crash_and_an_idle_producer_sleeps() {
    let cluster = Cluster::builder()
        .brokers(3)
        .topic(crate::testing::TopicSpec::new("t").partitions(6))
        .start()
        .unwrap();
    let whole = whole(Config::new(cluster.bootstrap().as_str()).buffer_bytes(4 << 20));
    let topic = whole.names.intern("t").unwrap();
    assert_eq!(whole.control.wait_until_ready(vec![topic], PATIENCE, whole.ring()), Ok(()));
    let total = 60_000u32;
    let mut receipts = Vec::new();
    for number in 0..total {
        let key = number.to_be_bytes();
        receipts.push(whole.intake.send(topic, &Message::keyed(&key, &[b'x'; 100]), Patience::Wait).unwrap());
        match number {
            20_000 => cluster.crash(2),
            40_000 => cluster.restart(2).unwrap(),
            _ => {}
        }
    }
    whole.flush();
    for receipt in &receipts {
        assert!(receipt.wait().is_ok());
    }
    let mut keys: Vec<u32> = cluster
        .messages("t")
        .iter()
        .map(|message| u32::from_be_bytes(message.key.as_deref().unwrap().try_into().unwrap()))
        .collect();
    keys.sort_unstable();
    assert!(keys.into_iter().eq(0..total), "lost or doubled");

    let wakes = || whole.control.snapshot(PATIENCE, whole.ring()).stats.worker_wakes;
    let before = wakes();
    std::thread::sleep(Duration::from_secs(1)); // nothing is to happen in it
    let idle = wakes() - before;
    assert!(idle <= 5, "{idle} wakes of an idle producer in a second");

    whole.control.stop(None, whole.ring());
    let end = whole.control.wait_end(Some(Instant::now() + PATIENCE)).unwrap();
    assert_eq!((end.died, end.left), (None, 0));
    whole.thread.join().unwrap();
}
