package tempura;

import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.reflect.ClassTag$;

/** What has columns and no rows: made of Spark's own rows, so that it need not compile how to turn others into them. */
public final class Tables {
    /** A relation with the columns of a schema (JSON), without rows and without partitions; no rule of Catalyst's knows that it is empty. */
    public Dataset empty(SparkSession session, String schema) {
        RDD none = session.sparkContext().emptyRDD(ClassTag$.MODULE$.apply(InternalRow.class));
        return session.internalCreateDataFrame(none, (StructType) DataType.fromJson(schema), false);
    }

    /** Such relations as temporary views. */
    public void view(SparkSession session, String names, String schemas) {
        String[] named = Given.texts(names);
        String[] typed = Given.texts(schemas);
        for (int i = 0; i < named.length; i++) {
            empty(session, typed[i]).createOrReplaceTempView(named[i]);
        }
    }
}
