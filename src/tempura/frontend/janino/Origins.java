package tempura;

import java.lang.reflect.Field;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapred.JobConf;
import org.apache.spark.sql.classic.SparkSession;

/** Hadoop's settings, without where each comes from. */
public final class Origins {
    /**
     * From now on what is sent to tasks, and kept in a session's copies, are settings alone. Spark sends all of Hadoop's, more than a thousand, with
     * each scan, each stage that writes and each job that does, and Hadoop packs beside each of them the name of the file that it is from, by itself
     * and by gzip: most of what sending takes. Nobody asks for these names but who looks for what has set something. Where
     * a part of Hadoop that is loaded later brings settings of its own, all are read again, and sent as before. Whether the names are gone.
     */
    public boolean forget(SparkSession session) throws ReflectiveOperationException {
        // Who first writes would load the settings of this class, and with them all others again.
        new JobConf(false);
        Configuration settings = session.sparkContext().hadoopConfiguration();
        if (settings.size() == 0) { // reads them
            return false;
        }
        Field origins;
        try {
            origins = Configuration.class.getDeclaredField("updatingResource");
        } catch (NoSuchFieldException error) {
            return false; // of another Hadoop, which may do otherwise
        }
        origins.setAccessible(true);
        Map known = (Map) origins.get(settings);
        if (known == null) {
            return false;
        }
        known.clear();
        return true;
    }
}
