{{- define "agent.name" -}}
{{ .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "agent.fullname" -}}
{{- $name := include "agent.name" . -}}
{{- $default := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{ .Values.fullnameOverride | default $default | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "agent.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (ternary (include "agent.fullname" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{- define "agent.selector" -}}
app.kubernetes.io/name: {{ include "agent.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "agent.labels" -}}
{{ include "agent.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "agent.image" -}}
{{ required "image.repository: name the image with fairwarning in a registry that your nodes can pull from" .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "agent.state" -}}
/var/lib/fairwarning-agent
{{- end }}

{{- /* Helm reads every number as a float; the settings have whole numbers only. */ -}}
{{- define "agent.settings" -}}
{{- $listen := printf "%s:%v" .Values.http.host .Values.http.port -}}
{{- $agent := merge (dict "state" (include "agent.state" .) "listen" $listen) (.Values.settings.agent | default dict) -}}
{{- $file := dict "agent" $agent "rule" (.Values.settings.rule | default list) | toToml -}}
{{ regexReplaceAll "(?m)^(\\s*\\w+ = \\d+)\\.0$" $file "${1}" | trim }}
{{- end }}

{{- /* What the hooks need of the cluster: drain, cordon, or nothing. */ -}}
{{- define "agent.needs" -}}
{{- $needs := "" -}}
{{- range $rule := .Values.settings.rule -}}
{{- range $step := concat ($rule.prepare | default list) ($rule.recover | default list) -}}
{{- if hasKey $step "kubernetes" -}}
{{- $needs = ternary "drain" ($needs | default "cordon") (hasKey $step.kubernetes "drain") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{ $needs }}
{{- end }}
