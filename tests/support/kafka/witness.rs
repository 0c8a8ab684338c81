//! The pipe to Kafka's own client and tools (`Witness.java`), one JVM for all questions.

use super::install::Install;
use super::watchdog;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{channel, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Longer than any question takes, however busy the machine is.
const LIMIT: Duration = Duration::from_secs(120);

type Answer = Result<Vec<String>, String>;

/// By the question's id: the lines that have come so far, and who waits for them.
type Waiting = HashMap<String, (Vec<String>, Sender<Answer>)>;

/// Asks Kafka's own code. Questions from several threads run side by side.
pub struct Witness {
    child: Mutex<Child>,
    questions: Mutex<(u64, ChildStdin)>,
    waiting: Arc<Mutex<Waiting>>,
    log: PathBuf,
}

impl Witness {
    pub fn start(install: &Install, dir: &Path) -> Witness {
        let log = dir.join("witness.log");
        let mut child = Command::new("java")
            .args(["-Xmx512m", "-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"])
            .args(["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"])
            .args(["-Dorg.slf4j.simpleLogger.showDateTime=true"])
            .args(["-cp", &install.witness_class_path, "Witness"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).expect("the witness's log"))
            .process_group(0)
            .spawn()
            .expect("java");
        watchdog::runs(child.id());
        let questions = Mutex::new((0, child.stdin.take().expect("a pipe")));
        let answers = child.stdout.take().expect("a pipe");
        let waiting = Arc::default();
        let readers = Arc::clone(&waiting);
        std::thread::spawn(move || read_answers(answers, &readers));
        Witness { child: Mutex::new(child), questions, waiting, log }
    }

    /// Asks and waits for the answer's lines.
    pub fn try_ask(&self, command: &str, arguments: &[&str]) -> Answer {
        let (sender, receiver) = channel();
        let mut questions = lock(&self.questions);
        questions.0 += 1;
        let id = questions.0.to_string();
        lock(&self.waiting).insert(id.clone(), (Vec::new(), sender));
        let mut line = format!("{id}\t{command}");
        for argument in arguments {
            assert!(!argument.contains(['\t', '\n']), "not in an argument");
            line.push('\t');
            line.push_str(argument);
        }
        line.push('\n');
        questions.1.write_all(line.as_bytes()).map_err(|e| format!("the witness is gone: {e}"))?;
        drop(questions);
        receiver.recv_timeout(LIMIT).unwrap_or_else(|_| Err(format!("{command}: no answer within {LIMIT:?}")))
    }

    /// As `try_ask`; an error ends the test.
    pub fn ask(&self, command: &str, arguments: &[&str]) -> Vec<String> {
        self.try_ask(command, arguments).unwrap_or_else(|error| {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            panic!("witness: {command} {arguments:?}: {error}\n{log}")
        })
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        let mut child = lock(&self.child);
        // It may have ended by itself; waiting says so either way.
        let _ = child.kill();
        watchdog::ended(child.id());
        let _ = child.wait();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read_answers(answers: ChildStdout, waiting: &Mutex<Waiting>) {
    for line in BufReader::new(answers).lines() {
        let Ok(line) = line else { break };
        let mut fields = line.splitn(3, '\t');
        let (id, kind) = (fields.next().unwrap_or(""), fields.next().unwrap_or(""));
        let rest = fields.next().unwrap_or("").to_owned();
        let mut waiting = lock(waiting);
        if kind == "=" {
            if let Some((lines, _)) = waiting.get_mut(id) {
                lines.push(rest);
            }
        } else if let Some((lines, sender)) = waiting.remove(id) {
            // Nobody may be waiting any longer: then the answer is not needed.
            let _ = sender.send(if kind == "ok" { Ok(lines) } else { Err(rest) });
        }
    }
    for (_, (_, sender)) in lock(waiting).drain() {
        let _ = sender.send(Err("the witness ended".to_owned()));
    }
}
