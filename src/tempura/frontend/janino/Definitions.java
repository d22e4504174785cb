package tempura;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.TreeSet;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistryBase;
import org.apache.spark.sql.catalyst.analysis.TableFunctionRegistry;
import org.apache.spark.sql.catalyst.catalog.SessionCatalog;
import org.apache.spark.sql.catalyst.catalog.TemporaryViewRelation;
import org.apache.spark.sql.classic.SparkSession;
import scala.Option;
import scala.collection.Iterator;

/** What a session has defined for itself under names that the text of a query may mean. */
public final class Definitions {
    private Set<String> found;
    private List<String> texts;

    /**
     * Temporary views whose names occur in the text, or in that of such a view, and all functions that are not Spark's, each with what tells
     * its definition from those before under the same name.
     */
    public String of(SparkSession session, String text) {
        Definitions those = new Definitions();
        those.found = new TreeSet<String>();
        those.texts = new ArrayList<String>();
        those.texts.add(text.toLowerCase(Locale.ROOT));
        SessionCatalog catalog = session.sessionState().catalog();
        int before = -1;
        while (before < those.found.size()) {
            before = those.found.size();
            Iterator names = catalog.getTempViewNames().iterator();
            while (names.hasNext()) {
                String name = (String) names.next();
                those.view(name, catalog.getRawTempView(name));
            }
            names = catalog.globalTempViewManager().listViewNames("*").iterator();
            while (names.hasNext()) {
                String name = (String) names.next();
                those.view(name, catalog.getRawGlobalTempView(name));
            }
        }
        those.functions(session.sessionState().functionRegistry(), (FunctionRegistryBase) FunctionRegistry.builtin());
        those.functions(session.sessionState().tableFunctionRegistry(), (FunctionRegistryBase) TableFunctionRegistry.builtin());
        return those.found.toString();
    }

    private void view(String name, Option known) {
        if (known.isDefined() && occurs(name.toLowerCase(Locale.ROOT))) {
            Option text = ((TemporaryViewRelation) known.get()).tableMeta().viewText();
            if (found.add(told(name, known.get())) && text.isDefined()) {
                texts.add(((String) text.get()).toLowerCase(Locale.ROOT));
            }
        }
    }

    private boolean occurs(String name) {
        for (String text : texts) {
            if (text.contains(name)) {
                return true;
            }
        }
        return false;
    }

    private void functions(FunctionRegistryBase registry, FunctionRegistryBase builtin) {
        Iterator names = registry.listFunction().iterator();
        while (names.hasNext()) {
            FunctionIdentifier name = (FunctionIdentifier) names.next();
            Option known = registry.lookupFunctionBuilder(name);
            if (known.isDefined() && !builtin.functionExists(name)) {
                found.add(told(name.unquotedString(), known.get()));
            }
        }
    }

    private String told(String name, Object definition) {
        return name + "@" + System.identityHashCode(definition);
    }
}
