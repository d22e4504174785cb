package tempura;

import org.apache.spark.sql.classic.SparkSession;
import scala.Option;
import scala.Tuple2;
import scala.collection.Iterator;

/** Many settings of a session in one call. Settings come and go as a text: names and values by turns, each ended by a zero. */
public final class Settings {
    /** The values of some names, as far as Spark knows any, and of all that were set whose names begin in some way. */
    public String of(SparkSession session, String names, String beginnings) {
        StringBuilder found = new StringBuilder();
        for (String name : Given.texts(names)) {
            Option value = session.conf().getOption(name);
            if (value.isDefined()) {
                found.append(name).append(Given.END).append(value.get()).append(Given.END);
            }
        }
        Iterator set = session.sessionState().conf().getAllConfs().iterator();
        while (set.hasNext()) {
            Tuple2 one = (Tuple2) set.next();
            if (begins((String) one._1(), beginnings)) {
                found.append(one._1()).append(Given.END).append(one._2()).append(Given.END);
            }
        }
        return found.toString();
    }

    /** Set some, and of those that were set whose names begin in some way no others. */
    public void set(SparkSession session, String settings, String beginnings) {
        Iterator before = session.sessionState().conf().getAllConfs().keysIterator();
        while (before.hasNext()) {
            String name = (String) before.next();
            if (begins(name, beginnings)) {
                session.conf().unset(name);
            }
        }
        add(session, settings);
    }

    /** Set some, and leave all others. */
    public void add(SparkSession session, String settings) {
        String[] given = Given.texts(settings);
        for (int i = 0; i < given.length; i += 2) {
            session.conf().set(given[i], given[i + 1]);
        }
    }

    private static boolean begins(String name, String beginnings) {
        for (String beginning : Given.texts(beginnings)) {
            if (name.startsWith(beginning)) {
                return true;
            }
        }
        return false;
    }
}
