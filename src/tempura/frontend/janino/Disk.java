package tempura;

import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.io.nativeio.NativeIO;
import org.apache.spark.sql.classic.SparkSession;

/** The files of this machine, without a process for each folder and file that is made: where its native library is not, Hadoop starts chmod. */
public final class Disk extends LocalFileSystem {
    public Disk() {
        super(new Raw());
    }

    /**
     * From now on whoever in this JVM asks Hadoop for the file system of this machine gets this one, unless a session asks for another. Whether
     * that is so.
     */
    public boolean serve(SparkSession session) throws IOException {
        Configuration asked = new Configuration(session.sparkContext().hadoopConfiguration());
        if (asked.get("fs.file.impl") != null || NativeIO.isAvailable()) {
            return false;
        }
        asked.setClassLoader(Disk.class.getClassLoader());
        asked.set("fs.file.impl", Disk.class.getName());
        URI here = URI.create("file:///");
        FileSystem.get(here, asked).close(); // Hadoop keeps one for all, and lets go of it so
        return FileSystem.get(here, asked) instanceof Disk;
    }

    private static final class Raw extends RawLocalFileSystem {
        public void setPermission(Path path, FsPermission permission) throws IOException {
            if (permission.getStickyBit()) {
                super.setPermission(path, permission);
                return;
            }
            String text = permission.getUserAction().SYMBOL + permission.getGroupAction().SYMBOL + permission.getOtherAction().SYMBOL;
            try {
                Files.setPosixFilePermissions(pathToFile(path).toPath(), PosixFilePermissions.fromString(text));
            } catch (UnsupportedOperationException error) {
                super.setPermission(path, permission);
            }
        }
    }
}
