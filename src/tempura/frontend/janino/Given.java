package tempura;

import java.lang.reflect.Constructor;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.api.python.PythonUtils;
import scala.Option;
import scala.collection.immutable.Seq;

/** What Python gives, in one call, and what is made of it. */
public final class Given {
    /** The end of each of several texts that come as one. */
    public static final String END = "\u0000";

    /** The texts of which each is ended by a zero. */
    public static String[] texts(String ended) {
        return ended.isEmpty() ? new String[0] : ended.substring(0, ended.length() - 1).split(END, -1);
    }

    /** A Scala sequence. */
    public static Seq seq(List items) {
        return PythonUtils.toSeq(items);
    }

    /** A Scala sequence of nothing. */
    public static Seq none() {
        return seq(new ArrayList());
    }

    /** By the only constructor, whose further parameters, options all of them, some versions of Spark have and others do not. */
    public static Object made(Class type, Object[] given) {
        try {
            Constructor of = type.getConstructors()[0];
            Object[] all = new Object[of.getParameterCount()];
            for (int i = 0; i < all.length; i++) {
                all[i] = i < given.length ? given[i] : Option.empty();
            }
            return of.newInstance(all);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }
}
