// Kafka's own admin client, consumer, producer, storage formatter and log dumper behind one pipe, so that a test pays for
// one JVM instead of one for each question.
//
// A request is one line on standard input: id, command, arguments, separated by tabs. Every answer line starts with the id:
// "id TAB = TAB line" for data, then "id TAB ok" or "id TAB error TAB text". Requests run side by side. End of input ends it.

import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.ByteArrayOutputStream;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ElectionNotNeededException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Witness {
    private static final PrintStream OUT = System.out;
    private static final Object DUMP_LOCK = new Object();
    private static final Map<String, Admin> ADMINS = new ConcurrentHashMap<>();

    public static void main(String[] args) throws Exception {
        // Whatever a tool prints by the way must not get between the answers.
        System.setOut(System.err);
        ExecutorService pool = Executors.newCachedThreadPool(task -> {
            Thread thread = new Thread(task);
            thread.setDaemon(true);
            return thread;
        });
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] request = line.split("\t", -1);
            pool.execute(() -> answer(request));
        }
        System.exit(0);
    }

    private static void answer(String[] request) {
        String id = request[0];
        List<String> lines = new ArrayList<>();
        String end;
        try {
            run(request[1], Arrays.copyOfRange(request, 2, request.length), lines::add);
            end = "ok";
        } catch (Throwable error) {
            Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
            end = "error\t" + String.valueOf(cause).replaceAll("[\\t\\n\\r]+", " ");
        }
        StringBuilder all = new StringBuilder();
        for (String line : lines) {
            all.append(id).append("\t=\t").append(line).append('\n');
        }
        all.append(id).append('\t').append(end).append('\n');
        byte[] bytes = all.toString().getBytes(StandardCharsets.UTF_8);
        synchronized (OUT) {
            OUT.write(bytes, 0, bytes.length);
            OUT.flush();
        }
    }

    private static void run(String command, String[] a, Consumer<String> out) throws Exception {
        switch (command) {
            case "format" -> format(a[0], a[1]);
            case "nodes" -> out.accept(nodes(a[0]));
            case "create" -> create(a);
            case "create-placed" -> createPlaced(a);
            case "delete" -> admin(a[0]).deleteTopics(List.of(a[1])).all().get();
            case "topic-config" -> topicConfig(a);
            case "describe" -> describe(a[0], a[1], out);
            case "ends" -> ends(a[0], a[1]).forEach((tp, end) -> out.accept(tp.partition() + " " + end));
            case "reassign" -> reassign(a);
            case "reassigning" -> out.accept("" + admin(a[0]).listPartitionReassignments().reassignments().get().size());
            case "byte-rate" -> byteRate(a[0], a[1], Double.parseDouble(a[2]));
            case "elect-preferred" -> electPreferred(a[0], a[1]);
            case "consume" -> out.accept("" + consume(a[0], a[1], Path.of(a[2])));
            case "dump" -> dump(a[0], Path.of(a[1]));
            case "produce" -> produce(a[0], a[1], Path.of(a[2]), Arrays.copyOfRange(a, 3, a.length), out);
            default -> throw new IllegalArgumentException("no such command: " + command);
        }
    }

    private static void format(String properties, String cluster) throws Exception {
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        int code = kafka.tools.StorageTool.execute(
            new String[] {"format", "-t", cluster, "-c", properties}, new PrintStream(said, true));
        if (code != 0) {
            throw new IllegalStateException("format: " + code + " " + said);
        }
    }

    private static Admin admin(String bootstrap) {
        return ADMINS.computeIfAbsent(bootstrap, servers -> {
            Properties p = new Properties();
            p.put("bootstrap.servers", servers);
            p.put("reconnect.backoff.max.ms", "200");
            p.put("default.api.timeout.ms", "60000");
            p.put("request.timeout.ms", "5000");
            p.put("metadata.max.age.ms", "2000");
            return Admin.create(p);
        });
    }

    private static String nodes(String bootstrap) throws Exception {
        Collection<Node> nodes = admin(bootstrap).describeCluster().nodes().get();
        return nodes.stream().map(Node::idString).sorted().collect(Collectors.joining(" "));
    }

    // bootstrap, topic, partitions, replication, config...
    private static void create(String[] a) throws Exception {
        NewTopic topic = new NewTopic(a[1], Integer.parseInt(a[2]), Short.parseShort(a[3]));
        admin(a[0]).createTopics(List.of(topic.configs(pairs(a, 4)))).all().get();
    }

    // bootstrap, topic, "1,2,3;2,3,1" (replicas of each partition), config...
    private static void createPlaced(String[] a) throws Exception {
        Map<Integer, List<Integer>> placement = new HashMap<>();
        for (String replicas : a[2].split(";")) {
            placement.put(placement.size(), ids(replicas));
        }
        NewTopic topic = new NewTopic(a[1], placement);
        admin(a[0]).createTopics(List.of(topic.configs(pairs(a, 3)))).all().get();
    }

    private static List<Integer> ids(String commaSeparated) {
        return Arrays.stream(commaSeparated.split(",")).map(Integer::parseInt).toList();
    }

    private static Map<String, String> pairs(String[] a, int from) {
        Map<String, String> map = new LinkedHashMap<>();
        for (String pair : Arrays.copyOfRange(a, from, a.length)) {
            String[] halves = pair.split("=", 2);
            map.put(halves[0], halves[1]);
        }
        return map;
    }

    private static void topicConfig(String[] a) throws Exception {
        List<AlterConfigOp> operations = pairs(a, 2).entrySet().stream()
            .map(e -> new AlterConfigOp(new ConfigEntry(e.getKey(), e.getValue()), AlterConfigOp.OpType.SET))
            .toList();
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, a[1]);
        admin(a[0]).incrementalAlterConfigs(Map.of(topic, operations)).all().get();
    }

    private static TopicDescription description(String bootstrap, String topic) throws Exception {
        return admin(bootstrap).describeTopics(List.of(topic)).allTopicNames().get().get(topic);
    }

    private static void describe(String bootstrap, String topic, Consumer<String> out) throws Exception {
        for (TopicPartitionInfo p : description(bootstrap, topic).partitions()) {
            String leader = p.leader() == null ? "-1" : p.leader().idString();
            out.accept(p.partition() + "\t" + leader + "\t" + join(p.replicas()) + "\t" + join(p.isr()));
        }
    }

    private static String join(List<Node> nodes) {
        return nodes.stream().map(Node::idString).collect(Collectors.joining(","));
    }

    private static Map<TopicPartition, Long> ends(String bootstrap, String topic) throws Exception {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(bootstrap)) {
            return new TreeMap<>(byPartition(consumer.endOffsets(partitions(bootstrap, topic))));
        }
    }

    private static TreeMap<TopicPartition, Long> byPartition(Map<TopicPartition, Long> map) {
        TreeMap<TopicPartition, Long> sorted = new TreeMap<>((x, y) -> Integer.compare(x.partition(), y.partition()));
        sorted.putAll(map);
        return sorted;
    }

    private static List<TopicPartition> partitions(String bootstrap, String topic) throws Exception {
        return description(bootstrap, topic).partitions().stream()
            .map(p -> new TopicPartition(topic, p.partition())).toList();
    }

    // bootstrap, topic, "1,2,3;2,3,1" (new replicas of each partition)
    private static void reassign(String[] a) throws Exception {
        Map<TopicPartition, Optional<NewPartitionReassignment>> moves = new HashMap<>();
        for (String replicas : a[2].split(";")) {
            TopicPartition partition = new TopicPartition(a[1], moves.size());
            moves.put(partition, Optional.of(new NewPartitionReassignment(ids(replicas))));
        }
        admin(a[0]).alterPartitionReassignments(moves).all().get();
    }

    private static void byteRate(String bootstrap, String clientId, double bytesPerSecond) throws Exception {
        ClientQuotaEntity client = new ClientQuotaEntity(Map.of(ClientQuotaEntity.CLIENT_ID, clientId));
        ClientQuotaAlteration.Op operation = new ClientQuotaAlteration.Op("producer_byte_rate", bytesPerSecond);
        admin(bootstrap).alterClientQuotas(List.of(new ClientQuotaAlteration(client, List.of(operation)))).all().get();
    }

    private static void electPreferred(String bootstrap, String topic) throws Exception {
        Set<TopicPartition> all = Set.copyOf(partitions(bootstrap, topic));
        for (Optional<Throwable> error : admin(bootstrap).electLeaders(ElectionType.PREFERRED, all)
                .partitions().get().values()) {
            if (error.isPresent() && !(error.get() instanceof ElectionNotNeededException)) {
                throw new IllegalStateException(error.get());
            }
        }
    }

    private static KafkaConsumer<byte[], byte[]> consumer(String bootstrap) {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("enable.auto.commit", "false");
        p.put("check.crcs", "true");
        p.put("auto.offset.reset", "none");
        p.put("max.poll.records", "10000");
        p.put("fetch.max.wait.ms", "100");
        p.put("reconnect.backoff.max.ms", "200");
        return new KafkaConsumer<>(p, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    // Everything in the topic from the first offset to the present end, one record a line.
    private static long consume(String bootstrap, String topic, Path file) throws Exception {
        long records = 0;
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(bootstrap);
                BufferedWriter out = Files.newBufferedWriter(file)) {
            List<TopicPartition> all = partitions(bootstrap, topic);
            consumer.assign(all);
            consumer.seekToBeginning(all);
            Map<TopicPartition, Long> left = new HashMap<>(consumer.endOffsets(all));
            left.entrySet().removeIf(e -> consumer.position(e.getKey()) >= e.getValue());
            long deadline = System.nanoTime() + Duration.ofSeconds(60).toNanos();
            while (!left.isEmpty()) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("not read within 60 s: " + left);
                }
                for (ConsumerRecord<byte[], byte[]> r : consumer.poll(Duration.ofMillis(200))) {
                    records += 1;
                    out.write(line(r));
                    out.write('\n');
                }
                left.entrySet().removeIf(e -> consumer.position(e.getKey()) >= e.getValue());
            }
        }
        return records;
    }

    // partition, offset, timestamp, its type, key, value, then a field a header: name:value. Hex; "-" is null.
    private static String line(ConsumerRecord<byte[], byte[]> r) {
        StringBuilder line = new StringBuilder();
        line.append(r.partition()).append('\t').append(r.offset()).append('\t').append(r.timestamp());
        line.append('\t').append(r.timestampType().name).append('\t').append(hex(r.key()));
        line.append('\t').append(hex(r.value()));
        for (Header header : r.headers()) {
            line.append('\t').append(hex(header.key().getBytes(StandardCharsets.UTF_8)));
            line.append(':').append(hex(header.value()));
        }
        return line.toString();
    }

    private static String hex(byte[] bytes) {
        return bytes == null ? "-" : HexFormat.of().formatHex(bytes);
    }

    private static byte[] unhex(String hex) {
        return hex.equals("-") ? null : HexFormat.of().parseHex(hex);
    }

    // The segments themselves, without a broker: DumpLogSegments of this Kafka (its package changed with 4.4).
    private static void dump(String files, Path to) throws Exception {
        Class<?> tool;
        try {
            tool = Class.forName("org.apache.kafka.tools.DumpLogSegments");
        } catch (ClassNotFoundException older) {
            tool = Class.forName("kafka.tools.DumpLogSegments");
        }
        String[] arguments = {"--deep-iteration", "--print-data-log", "--files", files};
        synchronized (DUMP_LOCK) {
            PrintStream before = System.out;
            try (PrintStream file = new PrintStream(new FileOutputStream(to.toFile()), false, StandardCharsets.UTF_8)) {
                PrintStream buffered = new PrintStream(new java.io.BufferedOutputStream(file, 1 << 20), false, StandardCharsets.UTF_8);
                System.setOut(buffered);
                scala.Console$.MODULE$.withOut(buffered, scalaDump(tool, arguments));
                buffered.flush();
            } finally {
                System.setOut(before);
            }
        }
    }

    // Scala's println has its own idea of standard output, taken when the JVM started.
    private static scala.Function0<Object> scalaDump(Class<?> tool, String[] arguments) {
        return () -> {
            try {
                return tool.getMethod("main", String[].class).invoke(null, (Object) arguments);
            } catch (java.lang.reflect.InvocationTargetException error) {
                throw new IllegalStateException(error.getCause());
            } catch (ReflectiveOperationException error) {
                throw new IllegalStateException(error);
            }
        };
    }

    // bootstrap, topic, file of "key TAB value" in hex, properties...: Java's producer; answers "partition offset" a line.
    private static void produce(String bootstrap, String topic, Path file, String[] properties, Consumer<String> out)
            throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("linger.ms", "5");
        p.putAll(pairs(properties, 0));
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(p, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (String line : Files.readAllLines(file)) {
                String[] halves = line.split("\t", -1);
                sent.add(producer.send(new ProducerRecord<>(topic, unhex(halves[0]), unhex(halves[1]))));
            }
        }
        for (Future<RecordMetadata> one : sent) {
            out.accept(one.get().partition() + " " + one.get().offset());
        }
    }
}
