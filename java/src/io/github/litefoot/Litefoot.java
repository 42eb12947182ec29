package io.github.litefoot;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.util.Map;
import java.util.Properties;

/**
 * Puts sqlite-jdbc on litefoot, a storage layer under unmodified SQLite that makes small durable transactions cheap on flash.
 *
 * <p>{@code java -javaagent:litefoot.jar -cp app.jar:sqlite-jdbc.jar …} does it before the application's first line, and nothing in the application
 * changes. {@code LITEFOOT=off} in the environment leaves SQLite as it is. {@code PRAGMA litefoot_version} answers nothing without litefoot.
 */
public final class Litefoot {
    /** The entry point that also makes litefoot the default VFS. */
    private static final String ENTRY = "sqlite3_litefootdefault_init";

    /** Java's names of the processors, and ours. */
    private static final Map<String, String> PROCESSORS = Map.of("amd64", "x86_64", "aarch64", "aarch64", "arm", "armv7");

    private Litefoot() {}

    /** Called by {@code -javaagent}; the application starts in any case. */
    public static void premain(String arguments) {
        if ("off".equals(System.getenv("LITEFOOT"))) {
            return;
        }
        try {
            load();
        } catch (IOException | SQLException error) {
            System.err.println("litefoot: not in use: " + error.getMessage());
        }
    }

    /** Loads litefoot for the life of the process: every database that sqlite-jdbc opens afterwards is on it. */
    public static void load() throws IOException, SQLException {
        Path library = library();
        Properties allowed = new Properties();
        allowed.setProperty("enable_load_extension", "true");
        try (Connection connection = DriverManager.getConnection("jdbc:sqlite::memory:", allowed);
                PreparedStatement statement = connection.prepareStatement("SELECT load_extension(?, ?)")) {
            statement.setString(1, library.toString());
            statement.setString(2, ENTRY);
            statement.executeQuery().close();
        } finally {
            // The loader keeps what it has mapped.
            if (System.getenv("LITEFOOT_LIBRARY") == null) {
                Files.deleteIfExists(library);
            }
        }
    }

    /** The file that LITEFOOT_LIBRARY names, or the library of this jar in a file of its own. */
    private static Path library() throws IOException {
        String given = System.getenv("LITEFOOT_LIBRARY");
        if (given != null) {
            return Path.of(given).toAbsolutePath();
        }
        String processor = PROCESSORS.getOrDefault(System.getProperty("os.arch"), System.getProperty("os.arch"));
        String libc = Files.exists(Path.of("/etc/alpine-release")) ? "musl" : "gnu";
        String place = "/prebuilds/linux-" + processor + "-" + libc + "/liblitefoot.so";
        try (InputStream bytes = Litefoot.class.getResourceAsStream(place)) {
            if (bytes == null) {
                throw new IOException("this jar has no " + place + "; build it, and name it in LITEFOOT_LIBRARY");
            }
            Path file = Files.createTempFile("liblitefoot-", ".so");
            Files.copy(bytes, file, StandardCopyOption.REPLACE_EXISTING);
            return file;
        }
    }
}
