package tempura;

import java.io.File;
import java.io.FileNotFoundException;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.catalog.BucketSpec;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.InMemoryFileIndex;
import org.apache.spark.sql.execution.datasources.LogicalRelation$;
import org.apache.spark.sql.execution.datasources.NoopCache$;
import org.apache.spark.sql.execution.datasources.PartitionSpec$;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Map;
import scala.collection.immutable.Map$;

/**
 * Leaves of plans that are Parquet files of this machine. Only their sizes are looked for: Spark's reader would search its archives for a format
 * of that name, and look at each path several times.
 */
public final class Leaves {
    private static final String[] OPTIONS = {"__globPaths__", "ignoreMissingFiles", "ignoreCorruptFiles"};

    /**
     * The rows of files, or of all files in folders, whose columns are those of a schema (JSON), whatever their paths spell; in so many buckets by
     * some columns, if any. Names are paths, not patterns; nothing that is missing or corrupt is passed over, whatever the session prefers.
     */
    public LogicalPlan parquet(SparkSession session, String paths, String schema, String columns, int buckets) throws FileNotFoundException {
        List roots = new ArrayList();
        for (String path : Given.texts(paths)) {
            if (!new File(path).exists()) {
                // An index of files takes what is not there for empty.
                throw new FileNotFoundException("file:" + path);
            }
            roots.add(new Path("file://" + path));
        }
        Map options = Map$.MODULE$.empty();
        for (String name : OPTIONS) {
            options = (Map) options.$plus(new Tuple2(name, "false"));
        }
        options = CaseInsensitiveMap$.MODULE$.apply(options);
        StructType rows = ((StructType) DataType.fromJson(schema)).asNullable();
        Object[] given = {session, Given.seq(roots), options, Option.apply(rows), NoopCache$.MODULE$, Option.apply(PartitionSpec$.MODULE$.emptySpec())};
        InMemoryFileIndex index = (InMemoryFileIndex) Given.made(InMemoryFileIndex.class, given);
        Object[] relation = {index, new StructType(), rows, spec(columns, buckets), new ParquetFileFormat(), options, session};
        return LogicalRelation$.MODULE$.apply((HadoopFsRelation) Given.made(HadoopFsRelation.class, relation), false);
    }

    private static Option spec(String columns, int buckets) {
        List names = new ArrayList();
        for (String name : Given.texts(columns)) {
            names.add(name);
        }
        return names.isEmpty() ? Option.empty() : Option.apply(new BucketSpec(buckets, Given.seq(names), Given.none()));
    }
}
