{{/* The namespace of the operator. */}}
{{- define "CHART.namespace" -}}
{{- .Values.namespace | default .Release.Namespace -}}
{{- end -}}

{{/* The namespaces to watch, as a JSON list; empty for all namespaces. */}}
{{- define "CHART.watchNamespaces" -}}
{{- $modes := MODES -}}
{{- $namespace := include "CHART.namespace" . -}}
{{- $watched := .Values.watchNamespaces | default list -}}
{{- $needed := "AllNamespaces" -}}
{{- if eq (len $watched) 1 -}}
{{- $needed = ternary "OwnNamespace" "SingleNamespace" (eq (first $watched) $namespace) -}}
{{- else if $watched -}}
{{- $needed = ternary "OwnNamespace" "MultiNamespace" (and (has $namespace $watched) (not (has "OwnNamespace" $modes))) -}}
{{- end -}}
{{- if not (has $needed $modes) -}}
{{- fail (printf "watchNamespaces: the operator does not support install mode %s, only %s" $needed (join ", " $modes)) -}}
{{- end -}}
{{- toJson $watched -}}
{{- end -}}

{{/* A Deployment, given as YAML, changed as the value deploymentConfig says. */}}
{{- define "CHART.configure" -}}
{{- $config := .config | toJson | fromJson -}}
{{- if not $config -}}
{{- .deployment -}}
{{- else -}}
{{- $deployment := fromYaml .deployment -}}
{{- $template := $deployment.spec.template -}}
{{- $pod := $template.spec -}}
{{- range $container := $pod.containers -}}
{{- include "CHART.replaceByName" (dict "owner" $container "key" "env" "added" $config.env) -}}
{{- include "CHART.appendMissing" (dict "owner" $container "key" "envFrom" "added" $config.envFrom) -}}
{{- include "CHART.replaceByName" (dict "owner" $container "key" "volumeMounts" "added" $config.volumeMounts) -}}
{{- if kindIs "map" $config.resources -}}
{{- $_ := set $container "resources" $config.resources -}}
{{- end -}}
{{- end -}}
{{- include "CHART.replaceByName" (dict "owner" $pod "key" "volumes" "added" $config.volumes) -}}
{{- include "CHART.appendMissing" (dict "owner" $pod "key" "tolerations" "added" $config.tolerations) -}}
{{- if kindIs "map" $config.nodeSelector -}}
{{- $_ := unset $pod "nodeSelector" -}}
{{- with $config.nodeSelector -}}
{{- $_ := set $pod "nodeSelector" . -}}
{{- end -}}
{{- end -}}
{{- if kindIs "map" $config.affinity -}}
{{- include "CHART.changeAffinity" (dict "pod" $pod "changes" $config.affinity) -}}
{{- end -}}
{{- range $owner := list $deployment $template -}}
{{- if $config.annotations -}}
{{- $annotations := $owner.metadata.annotations | default dict -}}
{{- range $name, $value := $config.annotations -}}
{{- if not (hasKey $annotations $name) -}}
{{- $_ := set $annotations $name $value -}}
{{- end -}}
{{- end -}}
{{- $_ := set $owner.metadata "annotations" $annotations -}}
{{- end -}}
{{- end -}}
{{- required "deploymentConfig: Helm cannot write the Deployment as YAML" (toYaml $deployment) -}}
{{- end -}}
{{- end -}}

{{/* Add items to a list; those with the name of an existing item take its place. */}}
{{- define "CHART.replaceByName" -}}
{{- if .added -}}
{{- $items := get .owner .key | default list -}}
{{- $positions := dict -}}
{{- range $position, $item := $items -}}
{{- $_ := set $positions (default "" $item.name) $position -}}
{{- end -}}
{{- $replacements := dict -}}
{{- $appended := list -}}
{{- range $item := .added -}}
{{- $name := default "" $item.name -}}
{{- if hasKey $positions $name -}}
{{- $_ := set $replacements (get $positions $name | toString) $item -}}
{{- else -}}
{{- $appended = append $appended $item -}}
{{- end -}}
{{- end -}}
{{- $result := list -}}
{{- range $position, $item := $items -}}
{{- $result = append $result (get $replacements (toString $position) | default $item) -}}
{{- end -}}
{{- $_ := set .owner .key (concat $result $appended) -}}
{{- end -}}
{{- end -}}

{{/* Add items to a list that it does not have. */}}
{{- define "CHART.appendMissing" -}}
{{- if .added -}}
{{- $items := get .owner .key | default list -}}
{{- range $item := .added -}}
{{- if not (has $item $items) -}}
{{- $items = append $items $item -}}
{{- end -}}
{{- end -}}
{{- $_ := set .owner .key $items -}}
{{- end -}}
{{- end -}}

{{/* Replace the parts of the affinity that are given; empty ones are removed, and all of it by an empty affinity. */}}
{{- define "CHART.changeAffinity" -}}
{{- $affinity := dict -}}
{{- $used := "" -}}
{{- range $part, $old := ternary .pod.affinity dict (not (empty .changes)) -}}
{{- if not (hasKey $.changes $part) -}}
{{- $_ := set $affinity $part $old -}}
{{- $used = print $used (include "CHART.isAffinity" $old) -}}
{{- end -}}
{{- end -}}
{{- range $part, $change := .changes -}}
{{- if include "CHART.isAffinity" $change -}}
{{- $_ := set $affinity $part $change -}}
{{- $used = "yes" -}}
{{- end -}}
{{- end -}}
{{- $_ := unset .pod "affinity" -}}
{{- if $used -}}
{{- $_ := set .pod "affinity" $affinity -}}
{{- end -}}
{{- end -}}

{{/* "yes" if a part of an affinity says anything. */}}
{{- define "CHART.isAffinity" -}}
{{- $part := . | default dict -}}
{{- $required := get $part "requiredDuringSchedulingIgnoredDuringExecution" -}}
{{- if kindIs "map" $required -}}
{{- $required = get $required "nodeSelectorTerms" -}}
{{- end -}}
{{- if or $required (get $part "preferredDuringSchedulingIgnoredDuringExecution") -}}
yes
{{- end -}}
{{- end -}}
