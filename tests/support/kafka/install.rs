//! Kafka's jars, fetched once through Maven into a folder that git ignores, and the witness compiled against them.

use nix::fcntl::{Flock, FlockArg};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The program that runs inside the witness's JVM.
const WITNESS_SOURCE: &str = include_str!("Witness.java");

/// One version of Kafka, ready to run.
pub struct Install {
    pub version: String,
    /// For brokers.
    pub class_path: String,
    /// For the witness: its class, then the jars.
    pub witness_class_path: String,
}

/// Why there is no Kafka.
pub enum Unavailable {
    /// A tool is not on this machine: such tests are skipped, unless they are demanded.
    Missing(String),
    /// The tools are there and failed: that is a failure.
    Failed(String),
}

/// The jars of `version`: downloaded, or repaired, if they are not all there. Safe against other processes doing the same.
pub fn install(version: &str) -> Result<Install, Unavailable> {
    need("java", "-version")?;
    let root = folder();
    fs::create_dir_all(&root).map_err(|e| failed(&format!("creating {}", root.display()), &e))?;
    let lock_path = root.join(format!("{version}.lock"));
    let lock = File::create(&lock_path).map_err(|e| failed("creating the lock file", &e))?;
    let _lock = Flock::lock(lock, FlockArg::LockExclusive).map_err(|(_, e)| failed("locking", &e))?;

    let dir = root.join(version);
    let pom = pom(version);
    if !is_complete(&dir, &pom) {
        need("mvn", "-version")?;
        download(&dir, version, &pom)?;
    }
    let jars = jars(&dir)?;
    let class_path = join(&jars);
    let classes = compile_witness(&dir, &class_path)?;
    let witness_class_path = format!("{}:{class_path}", classes.display());
    Ok(Install { version: version.to_owned(), class_path, witness_class_path })
}

fn failed(what: &str, error: &dyn std::fmt::Display) -> Unavailable {
    Unavailable::Failed(format!("{what}: {error}"))
}

/// `.kafka` beside `Cargo.toml`, or where `STEADFAST_KAFKA_DIR` says.
fn folder() -> PathBuf {
    std::env::var_os("STEADFAST_KAFKA_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join(".kafka"), PathBuf::from)
}

fn need(tool: &str, version_flag: &str) -> Result<(), Unavailable> {
    let run = Command::new(tool).arg(version_flag).stdout(Stdio::null()).stderr(Stdio::null()).status();
    match run {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Unavailable::Failed(format!("{tool} {version_flag} ended with {status}"))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(Unavailable::Missing(format!("{tool} is not on this machine")))
        }
        Err(error) => Err(failed(tool, &error)),
    }
}

fn pom(version: &str) -> String {
    let dependency = |group: &str, artifact: &str, version: &str| {
        format!(
            "<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>\
             <version>{version}</version><exclusions><exclusion><groupId>org.slf4j</groupId>\
             <artifactId>slf4j-reload4j</artifactId></exclusion></exclusions></dependency>\n"
        )
    };
    let mut pom = String::from(
        "<project><modelVersion>4.0.0</modelVersion><groupId>steadfast.test</groupId>\
         <artifactId>brokers</artifactId><version>1</version><dependencies>\n",
    );
    pom += &dependency("org.apache.kafka", "kafka_2.13", version);
    pom += &dependency("org.apache.kafka", "kafka-tools", version);
    pom += &dependency("org.slf4j", "slf4j-simple", "1.7.36");
    // A compiler for the witness, since a Java without one (a JRE) is enough for Maven and for brokers.
    pom += &dependency("org.eclipse.jdt", "ecj", "3.33.0");
    pom + "</dependencies></project>\n"
}

/// The marker is written last and lists every jar with its size, so a download that was cut off is noticed and done again.
fn is_complete(dir: &Path, pom: &str) -> bool {
    let recorded = fs::read_to_string(dir.join("complete")).unwrap_or_default();
    !recorded.is_empty() && inventory(dir, pom).is_ok_and(|found| found == recorded)
}

/// What was asked for, and what is there.
fn inventory(dir: &Path, pom: &str) -> std::io::Result<String> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(dir.join("jars"))? {
        let entry = entry?;
        lines.push(format!("{} {}\n", entry.file_name().to_string_lossy(), entry.metadata()?.len()));
    }
    lines.sort();
    lines.insert(0, pom.to_owned());
    Ok(lines.concat())
}

fn download(dir: &Path, version: &str, pom: &str) -> Result<(), Unavailable> {
    if dir.exists() {
        fs::remove_dir_all(dir).map_err(|e| failed("removing a broken download", &e))?;
    }
    fs::create_dir_all(dir).map_err(|e| failed("creating the folder", &e))?;
    let pom_path = dir.join("pom.xml");
    fs::write(&pom_path, pom).map_err(|e| failed("writing the POM", &e))?;
    // A second try for networks that lose a connection now and then; Maven goes on with what it already has.
    if let Err(first) = run_maven(dir, &pom_path) {
        run_maven(dir, &pom_path).map_err(|second| {
            Unavailable::Failed(format!("Maven could not fetch Kafka {version}: {first}\nagain: {second}"))
        })?;
    }
    let list = inventory(dir, pom).map_err(|e| failed("listing the jars", &e))?;
    fs::write(dir.join("complete"), list).map_err(|e| failed("writing the marker", &e))
}

fn run_maven(dir: &Path, pom: &Path) -> Result<(), String> {
    let mut output_directory = std::ffi::OsString::from("-DoutputDirectory=");
    output_directory.push(dir.join("jars"));
    let mut command = Command::new("mvn");
    command.args(["-q", "-B", "-f"]).arg(pom).arg("dependency:copy-dependencies").arg(output_directory);
    run(command)
}

fn jars(dir: &Path) -> Result<Vec<PathBuf>, Unavailable> {
    let entries = fs::read_dir(dir.join("jars")).map_err(|e| failed("listing the jars", &e))?;
    let mut jars: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    jars.sort();
    Ok(jars)
}

fn join(jars: &[PathBuf]) -> String {
    let mut path = String::new();
    for (n, jar) in jars.iter().enumerate() {
        let _ = write!(path, "{}{}", if n == 0 { "" } else { ":" }, jar.display());
    }
    path
}

/// Compiles `Witness.java` once per version of its text; the folder appears under its name only when it is whole.
fn compile_witness(dir: &Path, class_path: &str) -> Result<PathBuf, Unavailable> {
    let mut hasher = DefaultHasher::new();
    WITNESS_SOURCE.hash(&mut hasher);
    let classes = dir.join(format!("witness-{:016x}", hasher.finish()));
    if classes.is_dir() {
        return Ok(classes);
    }
    let unfinished = dir.join("witness-unfinished");
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished).map_err(|e| failed("removing a broken compilation", &e))?;
    }
    fs::create_dir_all(&unfinished).map_err(|e| failed("creating the folder", &e))?;
    let source = unfinished.join("Witness.java");
    fs::write(&source, WITNESS_SOURCE).map_err(|e| failed("writing the witness", &e))?;
    let mut compiler = Command::new("java");
    compiler.args(["-cp", class_path, "org.eclipse.jdt.internal.compiler.batch.Main"]);
    compiler.args(["-17", "-proc:none", "-nowarn", "-cp", class_path, "-d"]).arg(&unfinished).arg(&source);
    run(compiler).map_err(|e| failed("compiling the witness", &e))?;
    fs::rename(&unfinished, &classes).map_err(|e| failed("keeping the witness", &e))?;
    Ok(classes)
}

fn run(mut command: Command) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output().map_err(|e| e.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(format!("{}: {}", output.status, String::from_utf8_lossy(&said)))
}
