// Writes to HDFS with hsync, and reads what is there. For bench/cluster_faults.
//
//   java Synced.java write FOLDER PORT   until a line comes from the standard input
//   java Synced.java read FOLDER
//
// `write` appends lines "FILE LINE" to FOLDER/FILE, and prints each as soon as hsync has
// acknowledged it. There is one replica, on the DataNode whose port is PORT while it can be had.
// After an error it goes on with the next file; "# FILE NODE" tells where a new file lies. `read`
// prints all lines of all files.
//
// A line has 512 bytes, as much as HDFS keeps a checksum of. When a part of that is synced, the
// DataNode overwrites its checksum, and syncs that before the data. After a crash in between the
// checksum fits no more, and the DataNode gives up the part, though its data is there.
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.DistributedFileSystem;

public class Synced {
    private static final int LINES_OF_FILE = 2000, LINE_BYTES = 512;
    private static final long LEASE_MS = 60_000;

    public static void main(String[] words) throws Exception {
        var hdfs = (DistributedFileSystem) FileSystem.get(new Configuration());
        var folder = new Path(words[1]);
        if (words[0].equals("write")) {
            write(hdfs, folder, Integer.parseInt(words[2]));
        } else {
            read(hdfs, folder);
        }
    }

    private static void write(DistributedFileSystem hdfs, Path folder, int port) throws Exception {
        hdfs.mkdirs(folder);
        for (int file = 0; !isOver(); ++file) {
            try {
                writeFile(hdfs, folder, file, port);
            } catch (IOException error) {
                System.err.println("file " + file + ": " + error);
                Thread.sleep(200);
            }
        }
    }

    private static void writeFile(DistributedFileSystem hdfs, Path folder, int file, int port)
            throws Exception {
        var path = new Path(folder, Integer.toString(file));
        InetSocketAddress[] favoured = {new InetSocketAddress("localhost", port)};
        short replicas = 1;
        FSDataOutputStream out = hdfs.create(path, FsPermission.getFileDefault(), false, 4096,
                replicas, hdfs.getDefaultBlockSize(path), null, favoured);
        for (int line = 0; line < LINES_OF_FILE && !isOver(); ++line) {
            String text = file + " " + line;
            String whole = String.format("%-" + (LINE_BYTES - 1) + "s\n", text);
            out.write(whole.getBytes(StandardCharsets.UTF_8));
            out.hsync();
            System.out.println(text);
            if (line == 0) {
                tellPlace(hdfs, path);
            }
            Thread.sleep(5);
        }
        out.close(); // not after an error: the file stays as a writer leaves it that has died
    }

    private static void tellPlace(DistributedFileSystem hdfs, Path path) throws IOException {
        for (var block : hdfs.getFileBlockLocations(path, 0, 1)) {
            System.out.println("# " + path.getName() + " " + String.join(" ", block.getHosts()));
        }
    }

    private static boolean isOver() throws IOException {
        return System.in.available() > 0;
    }

    private static void read(DistributedFileSystem hdfs, Path folder) throws Exception {
        FileStatus[] files = hdfs.listStatus(folder);
        Arrays.sort(files);
        for (FileStatus file : files) {
            close(hdfs, file.getPath());
            try (var in = new BufferedReader(new InputStreamReader(hdfs.open(file.getPath()),
                    StandardCharsets.UTF_8))) {
                in.lines().map(String::strip).forEach(System.out::println);
            }
        }
    }

    /** A file whose writer did not close it gets its last length now. */
    private static void close(DistributedFileSystem hdfs, Path file) throws Exception {
        long end = System.currentTimeMillis() + LEASE_MS;
        while (!hdfs.recoverLease(file)) {
            if (System.currentTimeMillis() > end) {
                throw new IOException(file + ": its lease is not recovered");
            }
            Thread.sleep(500);
        }
    }
}
