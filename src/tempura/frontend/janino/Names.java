package tempura;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.analysis.UnresolvedFunction;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTableValuedFunction;
import org.apache.spark.sql.catalyst.catalog.SessionCatalog;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedWith;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.internal.SessionState;
import scala.Option;
import scala.Product;
import scala.collection.Iterator;

/** Which of some tables a parsed statement names: in sub-queries and in the texts of views as well, but for names that a WITH takes. */
public final class Names {
    private SessionState state;
    private boolean exact;
    private Map<String, List<Integer>> known;
    private Set<Integer> found;
    private Set<String> views;
    private boolean anything;

    /**
     * The positions of the tables, whose names are a line each, as JSON. All of them where a name may be hidden: in the body of a function,
     * in IDENTIFIER().
     */
    public String of(SessionState state, LogicalPlan parsed, String lines) {
        String[] tables = lines.split("\n");
        Names names = new Names();
        names.state = state;
        names.exact = state.conf().caseSensitiveAnalysis();
        names.known = new HashMap<String, List<Integer>>();
        names.found = new TreeSet<Integer>();
        names.views = new HashSet<String>();
        for (int i = 0; i < tables.length; i++) {
            String name = names.folded(tables[i]);
            if (!names.known.containsKey(name)) {
                names.known.put(name, new ArrayList<Integer>());
            }
            ((List<Integer>) names.known.get(name)).add(Integer.valueOf(i));
        }
        names.visit(parsed, new HashSet<String>());
        if (names.anything) {
            for (int i = 0; i < tables.length; i++) {
                names.found.add(Integer.valueOf(i));
            }
        }
        return names.found.toString();
    }

    private String folded(String name) {
        return exact ? name : name.toLowerCase(Locale.ROOT);
    }

    private void visit(Object value, Set<String> hidden) {
        if (value instanceof UnresolvedWith) {
            visitWith((UnresolvedWith) value, hidden);
        } else if (value instanceof scala.collection.Iterable) {
            visitAll(((scala.collection.Iterable) value).iterator(), hidden);
        } else if (value instanceof TreeNode || value instanceof Option || value.getClass().getName().startsWith("scala.Tuple")) {
            if (value instanceof UnresolvedRelation) {
                relation(((UnresolvedRelation) value).multipartIdentifier(), hidden);
            } else if (value instanceof UnresolvedFunction) {
                function(((UnresolvedFunction) value).nameParts(), false);
            } else if (value instanceof UnresolvedTableValuedFunction) {
                function(((UnresolvedTableValuedFunction) value).name(), true);
            } else if (value.getClass().getSimpleName().endsWith("WithUnresolvedIdentifier")) {
                anything = true;
            }
            visitAll(((Product) value).productIterator(), hidden);
        }
    }

    private void visitAll(Iterator values, Set<String> hidden) {
        while (values.hasNext()) {
            Object value = values.next();
            if (value != null) {
                visit(value, hidden);
            }
        }
    }

    /** A definition sees the names before it, and with RECURSIVE its own; what the WITH is for sees them all. */
    private void visitWith(UnresolvedWith with, Set<String> hidden) {
        Set<String> inside = new HashSet<String>(hidden);
        Iterator definitions = with.cteRelations().iterator();
        while (definitions.hasNext()) {
            Product definition = (Product) definitions.next();
            String name = folded((String) definition.productElement(0));
            if (with.allowRecursion()) {
                inside.add(name);
            }
            visit(definition.productElement(1), inside);
            inside.add(name);
        }
        visit(with.child(), inside);
    }

    private void relation(scala.collection.Seq parts, Set<String> hidden) {
        String last = (String) parts.apply(parts.size() - 1);
        String name = folded(last);
        if (parts.size() == 1 && hidden.contains(name)) {
            return;
        }
        if (parts.size() == 1 && known.containsKey(name)) {
            found.addAll((List<Integer>) known.get(name));
        } else if (parts.size() <= 3 && views.add(parts.toString())) {
            String text = viewText(last, parts.size() == 1 ? null : (String) parts.apply(parts.size() - 2));
            if (text != null) {
                try {
                    visit(state.sqlParser().parsePlan(text), new HashSet<String>());
                } catch (Exception error) {
                    anything = true; // written under other settings: the analyser will know
                }
            }
        }
    }

    /** The text of a view; null for one of a DataFrame, and for what is none. */
    private String viewText(String name, String database) {
        try {
            SessionCatalog catalog = state.catalog();
            TableIdentifier named = new TableIdentifier(name, Option.apply(database));
            Option text = catalog.getTempViewOrPermanentTableMetadata(named).viewText();
            return text.isDefined() ? (String) text.get() : null;
        } catch (Exception error) {
            return null; // no such table, which the analyser will say
        }
    }

    /** A function that is not Spark's own may have a body that reads tables. */
    private void function(scala.collection.Seq parts, boolean ofRows) {
        String name = (String) parts.apply(parts.size() - 1);
        SessionCatalog catalog = state.catalog();
        Option found = ofRows ? catalog.lookupBuiltinOrTempTableFunction(name) : catalog.lookupBuiltinOrTempFunction(name);
        boolean own = found.isDefined() && "built-in".equals(((ExpressionInfo) found.get()).getSource());
        anything = anything || parts.size() > 1 || !own;
    }
}
