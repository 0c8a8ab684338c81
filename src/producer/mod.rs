//! The producer as the application holds it.

mod handle;
mod report;

pub use report::{Leftovers, StopEnd, StopReport};

use crate::config::Config;
use crate::delivery::callback::Callback;
use crate::delivery::origin::Origin;
use crate::delivery::receipt::Receipt;
use crate::delivery::run::DeliveryRun;
use crate::engine::Engine;
use crate::error::{FlushError, NotReady, SendError, StartError};
use crate::intake::Patience;
use crate::message::Message;
use crate::stats::{Stats, Status};
use handle::Handle;
pub use handle::Parts;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Sends messages to Kafka from any number of threads. Cloning gives another handle to the same producer.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use steadfast::{Config, Message, Producer};
///
/// let producer = Producer::new(Config::new("broker-1:9092,broker-2:9092"))?;
/// let receipt = producer.send("orders", Message::keyed(b"customer 17", b"two of the blue ones"))?;
/// println!("{:?}", receipt.wait_one()?);
/// for left in producer.stop(Duration::from_secs(10)).left.iter() {
///     println!("not delivered: {left}");
/// }
/// # Ok(())
/// # }
/// ```
///
/// One worker thread (`steadfast-worker`) does the network and all else; a second one runs the callback, if there is one. A
/// call copies its messages and returns: it waits only if the buffer is full, and never for the network.
///
/// - **The end.** When the last handle is dropped the producer is stopped with a bounded wait (1 s unless set otherwise), and
///   one log line if anything was left. Call [`stop`](Self::stop) for more.
/// - **A logger that sends to Kafka** through this very producer runs on the worker's thread too. There, as in the callback,
///   sending never waits, and `flush` and `stop` are refused.
/// - **After a fork** the child has no worker: its calls fail ([`SendError::Forked`]; a few messages may be taken before that
///   shows, and are lost). Make a new producer in the child. The parent goes on.
#[derive(Clone)]
pub struct Producer {
    handle: Arc<Handle>,
}

/// Sets up a [`Producer`].
#[must_use]
pub struct ProducerBuilder {
    config: Config,
    callback: Option<Callback>,
}

impl ProducerBuilder {
    /// Calls `callback` with every verdict, in runs: in order per partition, each message once.
    ///
    /// It runs on a thread of its own, one call at a time. A slow one slows the senders (what it has not heard of still
    /// counts as buffered) and never the worker. It may use the producer: sending from there never waits (a full buffer is
    /// [`SendError::BufferFull`] at once); `flush`, `stop` and waiting for a receipt are refused as a deadlock. A panic in
    /// it is caught, logged and counted ([`Stats::callback_panics`]). A callback that owns a handle keeps the producer
    /// alive until `stop` is called.
    pub fn on_delivery(self, callback: impl FnMut(&DeliveryRun) + Send + 'static) -> ProducerBuilder {
        ProducerBuilder { callback: Some(Box::new(callback)), ..self }
    }

    /// Starts the worker. Touches no network on this thread: brokers that can't be reached are no error here
    /// (see [`Producer::wait_until_ready`]).
    pub fn start(self) -> Result<Producer, StartError> {
        let settings = self.config.settings()?;
        for note in self.config.notes() {
            log::info!("{note}");
        }
        let origin = Origin::new(settings.wait_spin);
        let engine = |parts: Parts| {
            let Parts { settings, names, budget, has_callback } = parts;
            Engine::new(settings, names, budget, has_callback, Instant::now(), fastrand::u64(..))
        };
        let handle = Handle::start(settings, origin, self.callback, engine)?;
        Ok(Producer { handle: Arc::new(handle) })
    }
}

impl Producer {
    /// A producer with this configuration and no callback.
    pub fn new(config: Config) -> Result<Producer, StartError> {
        Producer::builder(config).start()
    }

    /// For more than `new` does.
    pub fn builder(config: Config) -> ProducerBuilder {
        ProducerBuilder { config, callback: None }
    }

    /// Hands one message over. Waits up to `max.block.ms` if the buffer is full; never for the network or for metadata.
    #[inline]
    pub fn send<'a>(&self, topic: &str, message: impl Into<Message<'a>>) -> Result<Receipt, SendError> {
        self.hand_over(topic, message.into(), Patience::Wait)
    }

    #[inline]
    fn hand_over(&self, topic: &str, message: Message<'_>, patience: Patience) -> Result<Receipt, SendError> {
        let topic = self.handle.names.intern(topic)?;
        self.handle.intake.send(topic, &message, patience)
    }

    /// As [`send`](Self::send), but never waits: a full buffer is [`SendError::BufferFull`] at once.
    #[inline]
    pub fn try_send<'a>(&self, topic: &str, message: impl Into<Message<'a>>) -> Result<Receipt, SendError> {
        self.hand_over(topic, message.into(), Patience::Try)
    }

    /// Hands messages over: all of them are accepted, in order and with no others between them, or none. Waits up to
    /// `max.block.ms` if the buffer is full.
    pub fn send_messages<'a, I>(&self, topic: &str, messages: I) -> Result<Receipt, SendError>
    where
        I: IntoIterator,
        I::Item: Into<Message<'a>>,
    {
        let topic = self.handle.names.intern(topic)?;
        self.handle.intake.send_all(topic, messages, Patience::Wait)
    }

    /// As [`send_messages`](Self::send_messages), but never waits.
    pub fn try_send_messages<'a, I>(&self, topic: &str, messages: I) -> Result<Receipt, SendError>
    where
        I: IntoIterator,
        I::Item: Into<Message<'a>>,
    {
        let topic = self.handle.names.intern(topic)?;
        self.handle.intake.send_all(topic, messages, Patience::Try)
    }

    /// Waits until all that was accepted before this call has its verdict and the callback has heard of it. Linger is cut
    /// short for it. May be called by many threads at once.
    pub fn flush(&self, timeout: Duration) -> Result<(), FlushError> {
        self.handle.flush(timeout)
    }

    /// Refuses new messages, sends what is there without linger, and ends the producer, for all handles. What has no
    /// verdict after `timeout` is dropped and handed back in the report. A second call waits for the same end; the earlier
    /// deadline counts.
    pub fn stop(&self, timeout: Duration) -> StopReport {
        self.handle.stop(timeout)
    }

    /// Waits until the partitions' leaders of these topics are known and connected; with no topics, until any broker is.
    /// For those who want to fail at start-up: the error says what it waited for.
    pub fn wait_until_ready(&self, topics: &[&str], timeout: Duration) -> Result<(), NotReady> {
        self.handle.wait_until_ready(topics, timeout)
    }

    /// Counters. Cheap enough for once a second, from any thread.
    pub fn stats(&self) -> Stats {
        self.handle.stats()
    }

    /// What the producer is connected to and what it waits for.
    pub fn status(&self) -> Status {
        self.handle.status()
    }
}

/// A producer around what stands in for the engine: for tests of the callers' side.
#[cfg(any(test, feature = "testing"))]
pub fn around<C: crate::worker::Core + Send + 'static>(
    settings: crate::config::settings::Settings,
    origin: Origin,
    callback: Option<Callback>,
    make_core: impl FnOnce(Parts) -> C,
) -> std::io::Result<Producer> {
    Ok(Producer { handle: Arc::new(Handle::start(settings, origin, callback, make_core)?) })
}

/// How many bytes of the buffer are charged now.
#[cfg(any(test, feature = "testing"))]
pub fn bytes_charged(producer: &Producer) -> u64 {
    producer.handle.intake.budget().used()
}

/// A panic elsewhere (in an iterator of messages, say) leaves nothing half-done in it.
impl std::panic::UnwindSafe for Producer {}
impl std::panic::RefUnwindSafe for Producer {}

impl fmt::Debug for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer").field("accepted", &self.handle.intake.accepted()).finish_non_exhaustive()
    }
}
